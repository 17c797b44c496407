import { productCards, tilesOf, weightCard } from '../launches.mjs';

// A block of 256 threads for each tile of 128 x 128 results.
const shape = { grid: tilesOf(128), block: 256 };

export default [...productCards(shape), weightCard(shape)];
