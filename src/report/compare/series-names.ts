// The curves of a run that are compared. A browser runs this file too.
export const seriesNames = ['train', 'val', 'norm', 'lr'] as const;
export type SeriesName = (typeof seriesNames)[number];
