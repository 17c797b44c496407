// Declares a picture of the plot: the curves and settings that chart.ts passes to uPlot, and the colours of the style sheet.
import type { Points } from '../points.ts';
import type { Line, State } from './model.ts';

export interface Picture {
  /** Ends of the axes and the cursor, which change without a new plot. */
  readonly view: Readonly<Pick<State, 'from' | 'to' | 'range' | 'cursor'>>;
  readonly lines: readonly Line[];
  readonly band: Points | undefined;
  readonly isLog: boolean;
  readonly label: string;
  readonly xLabel: string;
  readonly baseline: number;
  readonly looks: readonly { readonly color: string; readonly dash: readonly number[] }[];
  readonly isDark: boolean;
}

/** A colour of base.css by its name. */
export const colorOf = (name: string): string =>
  getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
