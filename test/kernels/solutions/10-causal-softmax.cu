    const float before = largest;
    largest = fmaxf(largest, score);
    const float shrink = expf(before - largest), weight = expf(score - largest);
    sum = sum * shrink + weight;
    for (int i = 0; lane + 32 * i < HS; i++) values[i] = values[i] * shrink + weight * v[lane + 32 * i];
