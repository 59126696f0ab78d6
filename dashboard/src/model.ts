// The state as the server sends it once a second: server/src/http/dashboard/state.rs.

export type Histogram = { counts: number[]; nanos: number };

export type Disk = {
  name: string;
  failure_group: string;
  quorum: boolean;
  votes: boolean;
  mode: string;
  state: string;
  total: number;
  free: number;
  repair: number;
  hung: number;
  in_flight: number;
  reads: number;
  writes: number;
  bytes_read: number;
  bytes_written: number;
  errors: number;
  latencies: Record<string, Histogram>;
  reasons: Record<string, number>;
};

export type Operation = {
  pass: string;
  state: string;
  power: number;
  done: number;
  work: number;
  bytes: number;
  left: number | null;
  error: string | null;
};

export type FileRow = {
  name: string;
  reads: number;
  writes: number;
  syncs: number;
  bytes_read: number;
  bytes_written: number;
  seconds: (number | null)[];
};

export type Aged<T> = { age: number; rows: T[] };

export type Finding = {
  group: string | null;
  severity: 'OK' | 'NOTE' | 'WARNING' | 'CRITICAL';
  kind: string;
  subject: string | null;
  detail: string;
  remedy: string | null;
};

// The figures are missing until the engine has answered once.
export type Group = {
  name: string;
  up: boolean;
  age: number | null;
  restarts: number;
  state: string;
  redundancy?: string;
  total?: number;
  free?: number;
  writable?: number;
  safe?: number;
  extents?: number;
  lacking?: Record<string, number>;
  operations?: Operation[];
  scrubbed?: number | null;
  requests?: Record<string, Histogram>;
  bytes_read?: number;
  bytes_written?: number;
  disks?: Disk[];
  preferred: string[] | null;
  files: Aged<FileRow> | null;
};

export type State = {
  version: string;
  host: string;
  now: number;
  began: number;
  sessions: number;
  groups: Group[];
  findings: Aged<Finding> | null;
  alert: Aged<string> | null;
};
