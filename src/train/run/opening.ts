// Inputs of the functions that open a run, and the list of resources that the run has to close.
import type { Ranks } from '../../ranks/ranks.ts';
import type { LivePage } from '../../report/live/live-page.ts';
import type { Resolved } from '../plan/resolve-options.ts';

export interface Opening {
  readonly resolved: Resolved;
  readonly notice: (text: string) => void;
  /** Receives the live page when the run has ended. */
  readonly onPage: (page: LivePage) => void;
  readonly ranks: Ranks | undefined;
  readonly resources: Resources;
}

export class Resources {
  readonly #open: { close(): unknown }[] = [];

  keep<R extends { close(): unknown }>(resource: R): R {
    this.#open.push(resource);
    return resource;
  }

  /** Closes all resources, the last opened first; a second call does nothing. @throws the first error */
  async close(): Promise<void> {
    const errors: unknown[] = [];
    for (const resource of this.#open.splice(0).reverse()) {
      try {
        await resource.close();
      } catch (error) {
        errors.push(error);
      }
    }
    if (errors.length > 0) throw errors[0];
  }
}
