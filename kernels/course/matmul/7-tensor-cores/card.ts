import { productCards, tilesOf, weightCard } from '../launches.mjs';

// A block of 4 warps for each tile of 128 x 128 results. Its shared memory has two stages with two tiles of 128 lines, each of 64 k's and 8
// elements that are not used. (A tile of 64 k's is smaller.)
const shape = { grid: tilesOf(128), block: 128, shared: 2 * 2 * 128 * (64 + 8) * 2, dtypes: ['bf16'] };

export default [...productCards(shape), weightCard(shape)];
