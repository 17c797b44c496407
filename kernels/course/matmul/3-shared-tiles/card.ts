import { productCards, tilesOf, weightCard } from '../launches.mjs';

// A block for each tile of 32 x 32 results, with a thread for each of them.
const shape = { grid: tilesOf(32), block: [32, 32] };

export default [...productCards(shape), weightCard(shape)];
