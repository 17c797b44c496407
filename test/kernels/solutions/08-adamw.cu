  m[i] = beta1 * m[i] + (1 - beta1) * g;
  v[i] = beta2 * v[i] + (1 - beta2) * g * g;
  master[i] -= lr * (m[i] / c1 / (sqrtf(v[i] / c2) + eps) + weight_decay * master[i]);
  weight[i] = master[i];
