    const float before = largest;
    largest = fmaxf(largest, x[v]);
    sum = sum * expf(before - largest) + expf(x[v] - largest);
