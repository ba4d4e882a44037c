// Imports: sessions with servers that a trader knows; the functions of the module for a platform.

import type { Options } from "../connect.js";
import type { Stubs } from "../core.js";
import type { Session } from "../session.js";
import type { Remote } from "../stub.js";
import { dial, type Found, type ServiceType } from "./dial.js";
import type { Offer } from "./offer.js";
import type { Platform } from "./platform.js";
import { Search } from "./search.js";
import { type Dialer, Searcher } from "./searcher.js";
import { ServiceOf } from "./service.js";

/** The functions of `bifrost-veneer/service`. */
export interface ServiceModule {
  /**
   * Imports a service: connects to a server that the traders of a URL know, and returns the session and
   * the object. Rejects with an `ImportError` if there is none.
   */
  readonly importService: <S extends Remote>(
    url: string,
    type: ServiceType<S>,
    options?: Options,
  ) => Promise<[session: Session, object: S]>;
  /** Opens a session with a server that the traders of a URL know. `serverOf` has the name of the object. */
  readonly connect: (stubs: Stubs, url: string, options?: Options) => Promise<Session>;
  /**
   * Asks the traders of a URL, and returns their offers: at most `most` of each, 0 for its default. With
   * a type only servers are listed whose interface conforms to that of its stubs.
   */
  readonly findOffers: (
    url: string,
    type?: ServiceType<Remote> | null,
    most?: number,
    options?: Options,
  ) => Promise<Offer[]>;
  /** A service at traders, and a session with one server of it. */
  readonly Service: new <S extends Remote>(url: string, type: ServiceType<S>, options?: Options) => ServiceOf<S>;
}

/** Returns the functions of the module for Node or a browser. */
export function moduleOn(platform: Platform): ServiceModule {
  const find = <S extends Remote>(
    url: string,
    stubs: Stubs,
    type: ServiceType<S> | null,
    options: Options,
  ): Promise<Found<S>> => {
    const search = new Search(platform, url, stubs, options);
    const dialer: Dialer<S> = (offer, address, signal) => dial(search, stubs, type, offer, address, signal);
    return new Searcher(search, dialer).find(null);
  };
  return {
    async importService(url, type, options = {}) {
      const { session, object } = await find(url, type.module, type, options);
      return [session, object];
    },
    async connect(stubs, url, options = {}) {
      return (await find(url, stubs, null, options)).session;
    },
    async findOffers(url, type = null, most = 0, options = {}) {
      return new Search(platform, url, type?.module ?? null, options).offers(most);
    },
    Service: class Service<S extends Remote> extends ServiceOf<S> {
      constructor(url: string, type: ServiceType<S>, options: Options = {}) {
        super(platform, url, type, options);
      }
    },
  };
}
