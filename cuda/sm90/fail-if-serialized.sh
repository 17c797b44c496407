#!/bin/sh
# Runs a compiler command, and fails if ptxas notes that it serialized wgmma instructions: a warpgroup would then wait
# for each wgmma before the next. The cause is an access to a running wgmma's registers that hold() does not order.
messages=$("$@" 2>&1)
status=$?
[ -z "$messages" ] || printf '%s\n' "$messages" >&2
case $messages in
  *serialized*)
    echo 'sm90: ptxas serialized wgmma (see its note above): order accesses to its registers with hold() and wgmma_wait()' >&2
    exit 1
    ;;
esac
exit $status
