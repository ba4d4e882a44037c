// Explanations: what was recorded and sent, in the text form, and what would save crossings.
//
// The module is an entry of its own, `bifrost-veneer/explain`: pages that do not explain do not load it.

import { Accounts, type Account, type Advice } from "./explain/accounts.js";
import { Explainer, type Kept, Names } from "./explain/explainer.js";
import { placeOf } from "./places.js";
import { readCompound } from "./recorder/compounds.js";
import { Failure } from "./recorder/failure.js";
import { parseInterface } from "./recorder/mapping.js";
import { profile, type Profile, profileDue, readProfile } from "./recorder/profile.js";
import { profileReader } from "./recorder/reply.js";
import { itemReaders } from "./recorder/words.js";
import type { Session } from "./session.js";
import { TAG_COMPOUND } from "./tables.js";

export { type Account, ACCOUNTS, type Advice, LOOKED_AT, type Ran } from "./explain/accounts.js";
export { EXPLAINED_BYTES } from "./explain/explainer.js";
export type { Cost, Profile, ProfileEntry, Totals } from "./recorder/profile.js";

/** The explanations of a session. */
export class Explained {
  private readonly session: Session;
  private readonly names: Names;
  private readonly kept: Accounts;
  /** The batch that was recorded when watching began; bytes of it may have been sent before. */
  private readonly first: number;
  private readonly sentBefore: number;
  private readonly resultsBefore: number;

  constructor(session: Session, names: Names) {
    const r = session.$r;
    this.session = session;
    this.names = names;
    this.kept = new Accounts(r);
    this.first = r.batchNumber;
    this.sentBefore = r.published;
    // The results of the commands that were sent: those of the batch without those that are still here.
    const here = new Explainer(names, []);
    here.whole(r.batch.slice());
    this.resultsBefore = r.published > 0 ? r.futures.length - here.results : 0;
    r.watcher = this.kept;
    session.$placeOf ??= placeOf;
  }

  /**
   * Returns the batch that is recorded, a line for each command: what the next crossing will bring to
   * the server. Nothing crosses for it.
   */
  batch(): string {
    const r = this.session.$r;
    const head =
      r.commands === 0
        ? `# batch ${r.batchNumber}: nothing is recorded\n`
        : `# batch ${r.batchNumber}: ${r.commands} commands, not sent\n`;
    return head + this.explain(this.kept.sent.copy().keep(r.batch.slice()), r.batchNumber);
  }

  /**
   * Returns the batch that was sent last, below its account; undefined if none was. If its answer has a
   * profile, the account has the time at the server, and each line the cost of its command.
   */
  last(): string | undefined {
    const { list, last, profile } = this.kept;
    const account = list[list.length - 1];
    return account && `# ${this.kept.line(account)}\n${this.explain(last, account.number, profile)}`;
  }

  /** Returns a line for each of the last batches, oldest first. */
  batches(): string[] {
    return this.kept.list.map((account) => this.kept.line(account));
  }

  /** The accounts of the last batches, oldest first. */
  get accounts(): readonly Account[] {
    return this.kept.list;
  }

  /** Returns what would have saved crossings in the last batches; the most frequent first. */
  advice(): Advice[] {
    return this.kept.advice();
  }

  /**
   * Has the server measure this batch and all later ones, or no more: `last` and `profileOfLast` have the
   * figures. Nothing crosses for it at once. `MisuseError` inside a structure or a shipped transaction, and if the
   * server makes no profiles; nothing has changed then.
   */
  profile(on = true): void {
    const r = this.session.$r;
    try {
      if (profileDue(r, on)) profile(r, this.session.$admit(), on);
    } catch (failure) {
      throw failure instanceof Failure ? this.session.$error(failure) : failure;
    }
  }

  /** Returns the profile of the batch that was sent last, if its answer has come and has one. */
  profileOfLast(): Profile | null {
    return this.kept.profile;
  }

  /** Ends the watching of the session. */
  end(): void {
    this.session.$r.watcher = null;
  }

  private explain(kept: Kept, batch: number, profile: Profile | null = null): string {
    const r = this.session.$r;
    const [before, results] = batch === this.first ? [this.sentBefore, this.resultsBefore] : [0, 0];
    const note = before > 0 ? `# ${before} bytes before, which were not watched\n` : "";
    return note + kept.explain(new Explainer(this.names, r.procedureNames, results), profile);
  }
}

/**
 * Explains a session from now on. Places of calls are noted from then on, too, which costs some
 * microseconds a call.
 */
export async function explain(session: Session): Promise<Explained> {
  // Commands of any kind are read.
  itemReaders[TAG_COMPOUND] ??= readCompound;
  profileReader.read = readProfile;
  const { server, stubs } = session.$r.numbers;
  return new Explained(session, new Names(server ?? parseInterface(await stubs.json())));
}
