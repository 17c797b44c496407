// Singular values of small matrices in double.

/** The singular values of a matrix [R,K], R <= K, ascending: by rotations that make its rows orthogonal (one-sided Jacobi). */
export function singularValues(matrix: ArrayLike<number>, R: number): number[] {
  const K = matrix.length / R;
  const rows = Array.from({ length: R }, (_, row) => Float64Array.from({ length: K }, (_, k) => matrix[row * K + k]!));
  const dot = (a: Float64Array, b: Float64Array) => a.reduce((sum, value, k) => sum + value * b[k]!, 0);
  for (let isOrthogonal = false; !isOrthogonal; ) {
    isOrthogonal = true;
    for (const [i, a] of rows.entries()) {
      for (const b of rows.slice(i + 1)) {
        const [aa, bb, ab] = [dot(a, a), dot(b, b), dot(a, b)];
        if (ab ** 2 <= 1e-28 * aa * bb) continue;
        isOrthogonal = false;
        const zeta = (bb - aa) / (2 * ab);
        const tangent = (zeta < 0 ? -1 : 1) / (Math.abs(zeta) + Math.sqrt(1 + zeta ** 2));
        const cosine = 1 / Math.sqrt(1 + tangent ** 2);
        for (let k = 0; k < K; k++) {
          const [x, y] = [a[k]!, b[k]!];
          a[k] = cosine * (x - tangent * y);
          b[k] = cosine * (y + tangent * x);
        }
      }
    }
  }
  return rows.map((row) => Math.sqrt(dot(row, row))).sort((a, b) => a - b);
}
