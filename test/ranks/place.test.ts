// Reads a process's place from each launcher's environment, and refuses invalid ones.
import { describe, expect, it } from 'vitest';
import { UsageError } from '../../src/base/errors.ts';
import { firstNode, type Place, placeFromEnvironment } from '../../src/ranks/place.ts';

const torch = {
  ...{ RANK: '3', WORLD_SIZE: '8', LOCAL_RANK: '1', LOCAL_WORLD_SIZE: '2' },
  ...{ MASTER_ADDR: 'gpu01', MASTER_PORT: '29500' },
};
const slurm = {
  ...{ SLURM_PROCID: '5', SLURM_STEP_NUM_TASKS: '8', SLURM_NTASKS: '8', SLURM_LOCALID: '1' },
  ...{ SLURM_NTASKS_PER_NODE: '4', SLURM_JOB_ID: '4711', SLURM_STEP_ID: '0', SLURM_STEP_NODELIST: 'gpu[03-05,09]' },
};
const openMpi = {
  ...{ OMPI_COMM_WORLD_RANK: '1', OMPI_COMM_WORLD_SIZE: '4', OMPI_COMM_WORLD_LOCAL_RANK: '1' },
  ...{ OMPI_COMM_WORLD_LOCAL_SIZE: '4', PMIX_NAMESPACE: 'prterun-gpu01-77@1' },
};

describe('a place', () => {
  const apart = { ...openMpi, OMPI_COMM_WORLD_LOCAL_SIZE: '2' };
  it.each<[what: string, environment: NodeJS.ProcessEnv, wanted: Partial<Place>]>([
    [
      'that of torchrun and of train --gpus, with the GPU of its number on the machine',
      torch,
      {
        ...{ rank: 3, ranks: 8, localRank: 1, localRanks: 2, gpu: 1, host: 'gpu01', port: 29500 },
        ...{ ranksFrom: 'WORLD_SIZE', joinSeconds: 300, silenceSeconds: 20 },
      },
    ],
    ['on the GPU of its number among those it is shown', { ...torch, CUDA_VISIBLE_DEVICES: '4,5' }, { gpu: 1 }],
    ['on the only GPU it is shown', { ...torch, CUDA_VISIBLE_DEVICES: '5' }, { gpu: 0 }],
    ["beside torchrun's own port", { ...torch, TORCHELASTIC_USE_AGENT_STORE: 'True' }, { port: 29501 }],
    ['that of srun', slurm, { rank: 5, ranks: 8, localRank: 1, localRanks: 4, host: 'gpu03' }],
    ['where srun is told', { ...slurm, MASTER_ADDR: 'head', MASTER_PORT: '1234' }, { host: 'head', port: 1234 }],
    ["that of mpirun, without anybody's help", openMpi, { rank: 1, ranks: 4, localRank: 1, host: '127.0.0.1' }],
    ['that of mpirun on two machines', { ...apart, MASTER_ADDR: 'gpu01' }, { host: 'gpu01', localRanks: 2 }],
    ['as patient as it is told', { ...torch, GPT2_JOIN_SECONDS: '20' }, { joinSeconds: 20 }],
    ['of the token that it is told', { ...torch, GPT2_JOB_TOKEN: 'secret' }, { token: 'secret' }],
  ])('is %s', (_, environment, wanted) => {
    expect(placeFromEnvironment(environment)).toMatchObject(wanted);
  });

  it.each([
    ['without a launcher', {}],
    ['in a job of one', { ...torch, RANK: '0', WORLD_SIZE: '1' }],
    ['in a batch script, whose ranks srun starts', { ...slurm, SLURM_STEP_ID: undefined }],
  ])('is none %s', (_, environment) => {
    expect(placeFromEnvironment(environment)).toBeUndefined();
  });

  it('has the same port and token in all ranks of a job, and others in another job', () => {
    const of = (changes: object) => placeFromEnvironment({ ...slurm, ...changes })!;
    const { port, token } = of({});
    expect(port).toBeGreaterThanOrEqual(10_000);
    expect(port).toBeLessThan(30_000);
    expect(of({ SLURM_PROCID: '0' })).toMatchObject({ port, token });
    expect(of({ SLURM_JOB_ID: '4712' }).port).not.toBe(port);
    expect(of({ SLURM_STEP_ID: '1' }).token).not.toBe(token);
  });

  it.each([
    [{ ...torch, RANK: '8' }, 'RANK is 8, but WORLD_SIZE is 8'],
    [{ ...torch, WORLD_SIZE: 'two' }, 'WORLD_SIZE must be a whole number from 1 to 65536, not "two"'],
    [{ ...torch, WORLD_SIZE: '999999999' }, 'WORLD_SIZE must be a whole number from 1 to 65536, not "999999999"'],
    [{ ...torch, LOCAL_RANK: '8' }, 'LOCAL_RANK must be a whole number from 0 to 7, not "8"'],
    [{ ...torch, LOCAL_WORLD_SIZE: '0' }, 'LOCAL_WORLD_SIZE must be a whole number from 1 to 65536, not "0"'],
    [{ ...torch, MASTER_PORT: '99999' }, 'MASTER_PORT must be a whole number from 1 to 65535, not "99999"'],
    [{ ...slurm, MASTER_PORT: '65536' }, 'MASTER_PORT must be a whole number from 1 to 65535, not "65536"'],
    [
      { ...torch, MASTER_PORT: '65535', TORCHELASTIC_USE_AGENT_STORE: 'True' },
      'MASTER_PORT must be a whole number from 1 to 65534, not "65535"',
    ],
    [{ ...torch, GPT2_JOIN_SECONDS: '2147484' }, 'GPT2_JOIN_SECONDS must be a whole number from 1 to 2147483'],
    [{ ...torch, RANK: '' }, 'RANK must be a whole number'],
    [{ ...torch, MASTER_PORT: undefined }, 'MASTER_PORT is not set'],
    [{ ...torch, MASTER_ADDR: undefined }, 'MASTER_ADDR is not set'],
    [apart, 'MASTER_ADDR is not set'],
  ])('that cannot be is refused: %#', (environment, message) => {
    expect(() => placeFromEnvironment(environment)).toThrow(UsageError);
    expect(() => placeFromEnvironment(environment)).toThrow(message);
  });
});

it.each([
  ['gpu01', 'gpu01'],
  ['gpu01,gpu02', 'gpu01'],
  ['gpu[03-05,09],login1', 'gpu03'],
  ['rack[1,7]-node', 'rack1-node'],
])('the first node of %s is %s', (nodes, first) => {
  expect(firstNode(nodes)).toBe(first);
});
