// Downloads models of the Hugging Face hub by name, OWNER/NAME or OWNER/NAME@REVISION, into the cache (hub-cache.ts). A branch is
// looked up at each use, for new commits; a commit in the cache needs no network.
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { attempt, Gpt2Error, gpt2Error, InterruptedError, onCommandLine, orElse, words } from '../../base/errors.ts';
import { readTextFile } from '../../base/files/regular-file.ts';
import { parseJson } from '../../base/files/strict-text.ts';
import {
  askForHead,
  download,
  type FetchOptions,
  huggingFace,
  Refused,
  reasonOf,
} from '../../data/datasets/download.ts';
import { largestFile } from '../../tokenizer/tokenizer-file.ts';
import { weightsFile } from '../files/names.ts';
import { openSafetensors } from '../files/safetensors.ts';
import { alone, type HubName, isWhole, knownCommit, modelFolder, rememberCommit } from './hub-cache.ts';
import { adapterFile, readModelFolder, tokenizerFiles, writesOneFile } from './huggingface.ts';

/** A downloaded model of the hub: its folder, and its name OWNER/NAME@COMMIT. */
type HubModel = Readonly<Record<'folder' | 'name', string>>;

/** Files that are checked before the weights are downloaded; a repository may lack all but the first. */
const describingFiles = ['config.json', adapterFile, ...tokenizerFiles];
/** Time limit of asking the hub for newer commits of a model in the cache. */
const patienceMilliseconds = 5000;

const isCommit = (revision = ''): boolean => /^[0-9a-f]{40}$/.test(revision);

/** Repository and revision in a name or in a browser's address; undefined if the text has another form. */
export function parseHubName(text: string): HubName | undefined {
  const [, repository, revision] =
    /^([A-Za-z0-9_][\w.-]*\/[A-Za-z0-9_][\w.-]*)(?:@(\S+))?$/.exec(nameInAddress(text) ?? text) ?? [];
  return repository === undefined ? undefined : { repository, revision };
}

/** OWNER/NAME@REVISION of a model's page, folder or file on the hub, or on the mirror that HF_ENDPOINT names. */
function nameInAddress(text: string): string | undefined {
  const mirror = huggingFace('');
  const path = text.startsWith(mirror)
    ? text.slice(mirror.length)
    : /^(?:https?:\/\/)?(?:www\.)?(?:huggingface\.co|hf\.co)\/(.*)$/.exec(text)?.[1];
  const [, repository, revision] =
    /^([^/?#@]+\/[^/?#@]+)(?:\/(?:tree|blob|resolve)\/([\w.%-]+)(?:\/.*)?)?\/?(?:[?#].*)?$/.exec(path ?? '') ?? [];
  return repository && `${repository}${revision ? `@${revision.replaceAll('%2F', '/')}` : ''}`;
}

/**
 * The model of the hub that a text names; undefined for a path. A text is a path if it exists, or if it has no revision and its
 * parent folder exists, so that a mistyped runs/NAME is not looked up on the network.
 */
export function hubName(model: string): HubName | undefined {
  const name = parseHubName(model);
  if (!name || existsSync(model)) return undefined;
  return name.revision === undefined && existsSync(dirname(model)) ? undefined : name;
}

/** Whether `text` names the hub model that a run has recorded with its commit. */
export function isRecordedAs(recorded: string, text: string): boolean {
  const [was, is] = [parseHubName(recorded), parseHubName(text)];
  if (!was || !isCommit(was.revision) || was.repository !== is?.repository) return false;
  return !isCommit(is.revision) || is.revision === was.revision;
}

/**
 * Downloads a model unless the cache has it. If several processes call this, one downloads and the others wait.
 * @throws Gpt2Error if the hub has no such model or cannot be reached, or the model is not a GPT-2 that can be read;
 * InterruptedError if `signal` is aborted
 */
export async function fetchHubModel(name: HubName, options: FetchOptions = {}): Promise<HubModel> {
  const commit = await findCommit(name, options);
  const { repository } = name;
  const folder = modelFolder(repository, commit);
  const model = { folder, name: `${repository}@${commit}` };
  if (!isWhole(folder))
    await alone(folder, options, () => downloadModel(model, { repository, revision: commit }, options));
  if (!isCommit(name.revision)) rememberCommit(name, commit);
  return model;
}

/** The commit of a model: the hub's answer or, if the hub does not answer, the commit that was used before. */
async function findCommit(name: HubName, { notice, signal }: FetchOptions): Promise<string> {
  const { repository, revision } = name;
  if (isCommit(revision) && isWhole(modelFolder(repository, revision!))) return revision!;
  const known = knownCommit(name);
  const patience = known === undefined ? [] : [AbortSignal.timeout(patienceMilliseconds)];
  const limited = AbortSignal.any([...(signal ? [signal] : []), ...patience]);
  const headers = authorization();
  let answer: Response;
  try {
    answer = await askForHead(urlOf(name, 'config.json'), { headers, signal: limited });
    const refused = new Refused(answer);
    if (refused.mayPass) throw refused;
    if (answer.status < 400) {
      const commit = answer.headers.get('x-repo-commit') ?? '';
      if (isCommit(commit)) return commit;
      throw new Error('the answer has no X-Repo-Commit, so it is not from a Hugging Face hub');
    }
  } catch (cause) {
    if (signal?.aborted) throw new InterruptedError(`stopped before ${repository} was downloaded`, { cause });
    const reason = reasonOf(cause);
    if (known === undefined) {
      throw new Gpt2Error(
        words`${repository} is no path here, and cannot be downloaded from ${huggingFace(repository)}: ${reason}; check the network, or give a local model${onCommandLine(' with --model')}`,
        { cause },
      );
    }
    notice?.(`cannot ask ${huggingFace(repository)} for new commits (${reason}): using ${known}, downloaded before`);
    return known;
  }
  throw refusal(name, new Refused(answer));
}

async function downloadModel(
  { folder, name }: HubModel,
  at: HubName,
  { notice, onProgress, signal }: FetchOptions,
): Promise<void> {
  notice?.(`downloading ${name} to ${folder}`);
  const advice = words`give a local model${onCommandLine(' with --model')}`;
  /** Downloads a file of the repository. @returns false if the repository lacks the file */
  const fetchFile = async (file: string, shown?: FetchOptions['onProgress']): Promise<boolean> => {
    try {
      const most = file === weightsFile ? undefined : largestFile;
      const options = { notice, onProgress: shown, signal, advice, most, headers: authorization() };
      await download(urlOf(at, file), join(folder, file), options);
      return true;
    } catch (error) {
      const { cause } = error as Error;
      if (!(cause instanceof Refused) || cause.mayPass) throw error;
      if (cause.status === 404 && (cause.code ?? 'EntryNotFound') === 'EntryNotFound') return false;
      throw refusal(at, cause);
    }
  };
  for (const file of describingFiles) await fetchFile(file);
  // Other architectures are refused before their gigabytes are downloaded.
  fromDownload(folder, () => readModelFolder(folder, name));
  // The weights are downloaded last: a folder with weights is complete.
  if (!(await fetchFile(weightsFile, onProgress))) throw await otherWeights(name, at);
}

/** Reads a downloaded model. @throws as `read`; if a file is damaged, with advice to remove it */
export function fromDownload<T>(folder: string, read: () => T): T {
  const found = attempt(read);
  if (!(found instanceof Gpt2Error)) return found;
  const damaged = [...describingFiles, weightsFile].map((file) => join(folder, file)).find(isDamaged);
  if (damaged === undefined) throw found;
  throw new Gpt2Error(`${found.message}; remove ${damaged} and run this again, which downloads it`, { cause: found });
}

const isDamaged = (path: string): boolean =>
  existsSync(path) &&
  orElse(true, () => {
    if (path.endsWith('.json')) parseJson(readTextFile(path));
    if (path.endsWith(weightsFile)) openSafetensors(path)[Symbol.dispose]();
    return false;
  });

/** The error for a repository without model.safetensors, depending on its other files. */
async function otherWeights(name: string, at: HubName): Promise<Gpt2Error> {
  const has = (file: string) =>
    askForHead(urlOf(at, file), { headers: authorization() }).then(
      ({ status }) => status < 400,
      () => false,
    );
  const found = (await has(`${weightsFile}.index.json`))
    ? `has its weights in several files (${weightsFile}.index.json)`
    : (await has('pytorch_model.bin'))
      ? 'has its weights only in pytorch_model.bin'
      : `has no ${weightsFile}`;
  return gpt2Error`${name} ${found}, and weights are read from one ${weightsFile}: write one with ${writesOneFile}, and give its folder${onCommandLine(' with --model')}`;
}

const urlOf = ({ repository, revision = 'main' }: HubName, file: string): string =>
  huggingFace(`${repository}/resolve/${encodeURIComponent(revision)}/${file}`);

/** The header with HF_TOKEN. @throws Gpt2Error for a token that is invalid in a header, because fetch's error would print it */
function authorization(): Record<string, string> {
  const token = process.env.HF_TOKEN?.trim() ?? '';
  if (!/^[\x21-\x7e]*$/.test(token)) {
    throw gpt2Error`HF_TOKEN is no token: it has white space or other characters inside; set it to the token alone`;
  }
  return token ? { authorization: `Bearer ${token}` } : {};
}

/** The error for an answer of the hub. Without a token, the hub answers 401 even for a missing repository, to hide private ones. */
function refusal({ repository, revision }: HubName, { status, code, message }: Refused): Gpt2Error {
  const page = huggingFace(repository);
  if (code === 'GatedRepo') {
    return gpt2Error`${repository} is gated: accept its conditions at ${page}, and set HF_TOKEN to a token of that account`;
  }
  if (code === 'RevisionNotFound') {
    return gpt2Error`${page} has no revision ${revision}: name one of its branches, tags or commits`;
  }
  if (code === 'EntryNotFound') return gpt2Error`${page} has no config.json: name the repository of a GPT-2`;
  if (status === 403) {
    return gpt2Error`${page} may not be read (403): set HF_TOKEN to a token that has access to it`;
  }
  if (status === 401 || status === 404) {
    return new Gpt2Error(
      process.env.HF_TOKEN?.trim()
        ? `${repository} is no path here, and HF_TOKEN has access to no model ${page}: check the name and the token`
        : `${repository} is no path here, and there is no public model ${page}: check the name, or set HF_TOKEN if it is private`,
    );
  }
  return gpt2Error`${page} cannot be read: ${message}; give a local model${onCommandLine(' with --model')}`;
}
