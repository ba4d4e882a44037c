package org.bifrost.veneer;

import java.nio.file.Path;
import org.jspecify.annotations.Nullable;

/**
 * The files of certificates of a client, in PEM.
 *
 * @param authorities those that may sign the certificates of servers; null for those of the file
 *     that {@code BIFROST_CA} names, or else of the system
 * @param certificate the client's own, with those above it; null if it has none
 * @param key the key of the client's own certificate
 */
record TlsFiles(@Nullable Path authorities, @Nullable Path certificate, @Nullable Path key) {
  /** No files. */
  static final TlsFiles NONE = new TlsFiles(null, null, null);
}
