#include "../checks.h"
