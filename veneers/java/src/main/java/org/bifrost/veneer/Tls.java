package org.bifrost.veneer;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.MessageDigest;
import java.security.PrivateKey;
import java.security.cert.Certificate;
import java.security.cert.CertificateException;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.security.spec.InvalidKeySpecException;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import java.util.Collection;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.net.ssl.KeyManager;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.TrustManager;
import javax.net.ssl.TrustManagerFactory;
import javax.net.ssl.X509ExtendedTrustManager;
import org.jspecify.annotations.Nullable;

/** TLS 1.3 for clients: by a pin, by the authorities of a file, or by those of the system. */
final class Tls {
  /** The variable that names the file of the authorities. */
  static final String AUTHORITIES = "BIFROST_CA";

  /** The application protocol. */
  static final String PROTOCOL = "bifrost/1";

  private static final Pattern KEY =
      Pattern.compile("-----BEGIN ([A-Z ]*PRIVATE KEY)-----([^-]*)-----END ");
  private static final String[] ALGORITHMS = {"EC", "Ed25519", "RSA"};
  private static final char[] NO_PASSWORD = {};

  private Tls() {}

  /**
   * Returns the context for an address.
   *
   * @throws IllegalArgumentException if the files cannot be used, or contradict the address
   */
  static SSLContext context(Address address, TlsFiles files) {
    if (address.pin() != null && files.authorities() != null) {
      throw new IllegalArgumentException(
          "an address with a pin trusts this key alone: give no authorities, or no pin");
    }
    try {
      SSLContext context = SSLContext.getInstance("TLSv1.3");
      context.init(keys(files), new TrustManager[] {trust(address, files)}, null);
      return context;
    } catch (GeneralSecurityException e) {
      throw new IllegalArgumentException("the certificates cannot be used: " + e.getMessage(), e);
    }
  }

  /** Returns the parameters for an address. The trust of a pin checks no name of a host. */
  static SSLParameters parameters(Address address) {
    SSLParameters parameters = new SSLParameters();
    parameters.setProtocols(new String[] {"TLSv1.3"});
    parameters.setEndpointIdentificationAlgorithm("HTTPS");
    if (!address.isWeb()) {
      parameters.setApplicationProtocols(new String[] {PROTOCOL});
    }
    return parameters;
  }

  private static TrustManager trust(Address address, TlsFiles files)
      throws GeneralSecurityException {
    String pin = address.pin();
    if (pin != null) {
      return new Pinned(pin);
    }
    Path authorities = files.authorities();
    String named = System.getenv(AUTHORITIES);
    if (authorities == null && named != null && !named.isEmpty()) {
      authorities = Path.of(named);
    }
    KeyStore store = null;
    if (authorities != null) {
      store = emptyStore();
      for (Certificate one : certificates(authorities)) {
        store.setCertificateEntry("authority" + store.size(), one);
      }
    }
    TrustManagerFactory factory =
        TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    factory.init(store);
    for (TrustManager manager : factory.getTrustManagers()) {
      if (manager instanceof X509ExtendedTrustManager found) {
        return new Signed(found);
      }
    }
    throw new CertificateException("this Java checks no certificates");
  }

  private static KeyManager @Nullable [] keys(TlsFiles files) throws GeneralSecurityException {
    Path certificate = files.certificate();
    if (certificate == null) {
      return null;
    }
    Path key = files.key();
    if (key == null) {
      throw new IllegalArgumentException("a certificate of the client needs its key");
    }
    KeyStore store = emptyStore();
    Certificate[] chain = certificates(certificate).toArray(new Certificate[0]);
    store.setKeyEntry("client", key(key), NO_PASSWORD, chain);
    KeyManagerFactory factory =
        KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
    factory.init(store, NO_PASSWORD);
    return factory.getKeyManagers();
  }

  private static KeyStore emptyStore() throws GeneralSecurityException {
    KeyStore store = KeyStore.getInstance("PKCS12");
    try {
      store.load(null, null);
    } catch (IOException e) {
      throw new GeneralSecurityException(e);
    }
    return store;
  }

  private static byte[] read(Path file) {
    try {
      return Files.readAllBytes(file);
    } catch (IOException e) {
      throw new IllegalArgumentException("the file `" + file + "` cannot be read: " + e, e);
    }
  }

  private static Collection<? extends Certificate> certificates(Path file)
      throws CertificateException {
    byte[] bytes = read(file);
    Collection<? extends Certificate> found;
    try {
      found =
          CertificateFactory.getInstance("X.509")
              .generateCertificates(new ByteArrayInputStream(bytes));
    } catch (CertificateException e) {
      throw new CertificateException("`" + file + "`: " + e.getMessage(), e);
    }
    if (found.isEmpty()) {
      throw new CertificateException("`" + file + "` has no certificate");
    }
    return found;
  }

  private static PrivateKey key(Path file) throws GeneralSecurityException {
    Matcher matcher = KEY.matcher(new String(read(file), StandardCharsets.ISO_8859_1));
    if (!matcher.find()) {
      throw new InvalidKeySpecException("`" + file + "` has no private key");
    }
    if (!matcher.group(1).equals("PRIVATE KEY")) {
      throw new InvalidKeySpecException(
          "`"
              + file
              + "` has a key of another form: convert it with `openssl pkcs8 -topk8 -nocrypt`");
    }
    PKCS8EncodedKeySpec spec;
    try {
      spec = new PKCS8EncodedKeySpec(Base64.getMimeDecoder().decode(matcher.group(2)));
    } catch (IllegalArgumentException e) {
      throw new InvalidKeySpecException("`" + file + "` has no base64", e);
    }
    InvalidKeySpecException last = new InvalidKeySpecException("there is no key");
    for (String algorithm : ALGORITHMS) {
      try {
        return KeyFactory.getInstance(algorithm).generatePrivate(spec);
      } catch (InvalidKeySpecException e) {
        last = e;
      }
    }
    throw new InvalidKeySpecException("`" + file + "` has a key of no known kind", last);
  }

  /** Returns the pin of a certificate: the SHA-256 of its public key. */
  static String pin(X509Certificate certificate) throws CertificateException {
    try {
      byte[] key = certificate.getPublicKey().getEncoded();
      byte[] digest = MessageDigest.getInstance("SHA-256").digest(key);
      return "sha256-" + Base64.getUrlEncoder().withoutPadding().encodeToString(digest);
    } catch (GeneralSecurityException e) {
      throw new CertificateException(e);
    }
  }

  /** The trust in one key: name, dates and issuer of the certificate do not count. */
  private static final class Pinned extends X509ExtendedTrustManager {
    private final String pin;

    Pinned(String pin) {
      this.pin = pin;
    }

    private void check(X509Certificate[] chain) throws CertificateException {
      String found = chain.length == 0 ? "none" : pin(chain[0]);
      if (!found.equals(pin)) {
        throw new CertificateException(
            "the server has another key than the pin of the address: " + found);
      }
    }

    @Override
    public void checkServerTrusted(X509Certificate[] chain, String type)
        throws CertificateException {
      check(chain);
    }

    @Override
    public void checkServerTrusted(X509Certificate[] chain, String type, @Nullable Socket socket)
        throws CertificateException {
      check(chain);
    }

    @Override
    public void checkServerTrusted(X509Certificate[] chain, String type, @Nullable SSLEngine engine)
        throws CertificateException {
      check(chain);
    }

    @Override
    public void checkClientTrusted(X509Certificate[] chain, String type)
        throws CertificateException {
      throw new CertificateException("this is no server");
    }

    @Override
    public void checkClientTrusted(X509Certificate[] chain, String type, @Nullable Socket socket)
        throws CertificateException {
      throw new CertificateException("this is no server");
    }

    @Override
    public void checkClientTrusted(X509Certificate[] chain, String type, @Nullable SSLEngine engine)
        throws CertificateException {
      throw new CertificateException("this is no server");
    }

    @Override
    public X509Certificate[] getAcceptedIssuers() {
      return new X509Certificate[0];
    }
  }

  /** The trust in authorities. Its errors have the pin of the server. */
  private static final class Signed extends X509ExtendedTrustManager {
    private final X509ExtendedTrustManager inner;

    Signed(X509ExtendedTrustManager inner) {
      this.inner = inner;
    }

    private static CertificateException told(X509Certificate[] chain, CertificateException e)
        throws CertificateException {
      return new CertificateException(
          "the certificate of the server is not trusted: "
              + e.getMessage()
              + "; its pin is "
              + (chain.length == 0 ? "none" : pin(chain[0])),
          e);
    }

    @Override
    public void checkServerTrusted(X509Certificate[] chain, String type)
        throws CertificateException {
      try {
        inner.checkServerTrusted(chain, type);
      } catch (CertificateException e) {
        throw told(chain, e);
      }
    }

    @Override
    public void checkServerTrusted(X509Certificate[] chain, String type, @Nullable Socket socket)
        throws CertificateException {
      try {
        inner.checkServerTrusted(chain, type, socket);
      } catch (CertificateException e) {
        throw told(chain, e);
      }
    }

    @Override
    public void checkServerTrusted(X509Certificate[] chain, String type, @Nullable SSLEngine engine)
        throws CertificateException {
      try {
        inner.checkServerTrusted(chain, type, engine);
      } catch (CertificateException e) {
        throw told(chain, e);
      }
    }

    @Override
    public void checkClientTrusted(X509Certificate[] chain, String type)
        throws CertificateException {
      inner.checkClientTrusted(chain, type);
    }

    @Override
    public void checkClientTrusted(X509Certificate[] chain, String type, @Nullable Socket socket)
        throws CertificateException {
      inner.checkClientTrusted(chain, type, socket);
    }

    @Override
    public void checkClientTrusted(X509Certificate[] chain, String type, @Nullable SSLEngine engine)
        throws CertificateException {
      inner.checkClientTrusted(chain, type, engine);
    }

    @Override
    public X509Certificate[] getAcceptedIssuers() {
      return inner.getAcceptedIssuers();
    }
  }
}
