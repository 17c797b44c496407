import { productCards, weightCard } from '../launches.mjs';

// Eight warps, one per row of the block. Forward: a warp for each result. Gradients: a lane for each result.
const gradients = { grid: (rows = 0, columns = 0) => [Math.ceil(columns / 32), Math.ceil(rows / 8)], block: [32, 8] };
const forwardGrid = (rows = 0, columns = 0) => [rows, Math.ceil(columns / 8)];

export default [...productCards({ ...gradients, forwardGrid }), weightCard(gradients)];
