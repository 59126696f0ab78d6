// Differences between states: rates, and latencies over a time. Counters are those since the mount;
// where one went back the engine is another one, and the older state does not count.

import type { Disk, Group, Histogram, State } from './model';

export const CLASSES = ['SMALL READ', 'LARGE READ', 'SMALL WRITE', 'LARGE WRITE', 'SYNC'];

// States are kept for a minute and a bit: each for ten seconds, then one every five.
const KEPT_MS = 65_000;
const EACH_MS = 10_000;
const THIN_MS = 5_000;

export class States {
  private all: State[] = [];

  push(state: State) {
    const all = [...this.all, state];
    this.all = all.filter((one, at) => {
      const age = state.now - one.now;
      if (age > KEPT_MS) return false;
      const before = all[at - 1];
      const slot = (of: State) => Math.floor(of.now / THIN_MS);
      return age <= EACH_MS || !before || slot(before) !== slot(one);
    });
  }

  // The newest state that is at least this much older than the last one, or the oldest.
  before(millis: number): State | undefined {
    const last = this.all.at(-1);
    if (!last) return undefined;
    return this.all.findLast((one) => last.now - one.now >= millis) ?? this.all[0];
  }
}

export function sub(now: Histogram, then: Histogram | undefined): Histogram | null {
  if (!then) return null;
  const counts = now.counts.map((value, at) => value - (then.counts[at] ?? 0));
  const nanos = now.nanos - then.nanos;
  if (nanos < 0 || then.counts.length > now.counts.length || counts.some((value) => value < 0)) {
    return null;
  }
  return { counts, nanos };
}

export const total = (of: Histogram | null) => of?.counts.reduce((sum, value) => sum + value, 0) ?? 0;

// In microseconds.
export function mean(of: Histogram | null): number | null {
  const all = total(of);
  return of && all > 0 ? of.nanos / all / 1000 : null;
}

// The upper border of the bucket in which it lies, in microseconds.
export function percentile(of: Histogram | null, share: number): number | null {
  const all = total(of);
  if (!of || all === 0) return null;
  let seen = 0;
  const at = of.counts.findIndex((value) => (seen += value) >= all * share);
  return 2 ** (at < 0 ? of.counts.length - 1 : at);
}

export type DiskRates = {
  disk: Disk;
  reads: number | null;
  writes: number | null;
  bytes_read: number | null;
  bytes_written: number | null;
  read: Histogram | null;
  write: Histogram | null;
  reasons: Record<string, number>;
};

// What the disks of a group did between two states.
export function disks(now: Group, then: Group | undefined, seconds: number): DiskRates[] {
  const before = new Map(then?.disks?.map((disk) => [disk.name, disk]));
  return (now.disks ?? []).map((disk) => {
    const old = before.get(disk.name);
    const per = (of: (disk: Disk) => number) => {
      const change = old ? of(disk) - of(old) : -1;
      return change >= 0 && seconds > 0 ? change / seconds : null;
    };
    const latency = (kind: string) => {
      const latest = disk.latencies[kind];
      return latest ? sub(latest, old?.latencies[kind]) : null;
    };
    const reasons: Record<string, number> = {};
    for (const [reason, value] of Object.entries(disk.reasons)) {
      reasons[reason] = Math.max(0, value - (old?.reasons[reason] ?? (old ? 0 : value)));
    }
    return {
      disk,
      reads: per((one) => one.reads),
      writes: per((one) => one.writes),
      bytes_read: per((one) => one.bytes_read),
      bytes_written: per((one) => one.bytes_written),
      read: latency('READ'),
      write: latency('WRITE'),
      reasons,
    };
  });
}

export function requests(now: Group, then: Group | undefined): Record<string, Histogram | null> {
  const of = (name: string) => {
    const latest = now.requests?.[name];
    return latest ? sub(latest, then?.requests?.[name]) : null;
  };
  return Object.fromEntries(CLASSES.map((name) => [name, of(name)]));
}

// A point of the chart over time, for each class: requests a second, and latencies in microseconds.
export type Point = { rate: number; mean: number | null; p99: number | null };
export type Line = { times: number[]; points: Record<string, Point[]> };

const POINTS_MAX = 900;

export class Lines {
  private lines = new Map<string, Line>();

  push(now: State, then: State | undefined) {
    if (!then || now.now <= then.now) return;
    const seconds = (now.now - then.now) / 1000;
    for (const group of now.groups) {
      const old = then.groups.find((one) => one.name === group.name);
      // Figures that were not read anew say nothing about this second.
      const found = group.up ? requests(group, old) : requests({ ...group, requests: {} }, old);
      const line = this.lines.get(group.name) ?? {
        times: [],
        points: Object.fromEntries(CLASSES.map((name) => [name, []])),
      };
      line.times.push(now.now / 1000);
      for (const name of CLASSES) {
        const of = found[name] ?? null;
        line.points[name]?.push({ rate: total(of) / seconds, mean: mean(of), p99: percentile(of, 0.99) });
      }
      if (line.times.length > POINTS_MAX) {
        line.times.shift();
        for (const name of CLASSES) line.points[name]?.shift();
      }
      // A new value, so that a chart sees the change.
      this.lines.set(group.name, { ...line });
    }
    for (const name of this.lines.keys()) {
      if (!now.groups.some((group) => group.name === name)) this.lines.delete(name);
    }
  }

  of(group: string): Line | undefined {
    return this.lines.get(group);
  }
}
