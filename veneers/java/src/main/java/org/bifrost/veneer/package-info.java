/** The client library of Bifrost: sessions, the recorder below them, and transports. */
@NullMarked
package org.bifrost.veneer;

import org.jspecify.annotations.NullMarked;
