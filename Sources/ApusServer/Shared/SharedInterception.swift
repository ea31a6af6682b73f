import ApusDirectory
import ApusLog
import ApusLoop
import ApusModel
import ApusTLS
import ApusTrust
import Synchronization

/// What the development service's workers share: the interceptor, and the listeners' contexts with other certificates.
final class SharedInterception: Sendable {
  let interceptor: any Interceptor
  private let contexts: ListenerContexts
  private let connections = Atomic<UInt64>(0)
  private let made = Mutex<[Show: TLSContext]>([:])

  /// A listener that presents a certificate other than its own.
  private struct Show: Hashable {
    var place: Int
    var certificate: ConnectionOpening.Certificate
  }

  init(_ interceptor: any Interceptor, _ contexts: ListenerContexts) {
    self.interceptor = interceptor
    self.contexts = contexts
  }

  /// The number of the next connection.
  func nextConnection() -> UInt64 { connections.wrappingAdd(1, ordering: .relaxed).newValue }

  /// The listener to use for the next connection; `place` is its index among the open ones.
  func listener(_ listener: ServiceListener, at place: Int) -> ServiceListener {
    let certificate = interceptor.opening.certificate
    guard certificate != .good, listener.kind != .courier else { return listener }
    do {
      let context = try made.withLock { made in
        let show = Show(place: place, certificate: certificate)
        if let context = made[show] { return context }
        let context = try makeContext(show, listener.authorities)
        made[show] = context
        return context
      }
      return listener.with(context: context, authorities: listener.authorities)
    } catch {
      contexts.configuration.log(
        .error, "no such certificate", .text("certificate", certificate.rawValue),
        .text("reason", "\(error)"))
      return listener
    }
  }

  private func makeContext(_ show: Show, _ authorities: Authorities) throws -> TLSContext {
    try contexts.context(
      for: contexts.configuration.openListeners[show.place], trusting: authorities,
      showing: identity(show.certificate))
  }

  private static let daySeconds: Int64 = 86_400

  private func identity(_ certificate: ConnectionOpening.Certificate) throws -> TLSIdentity {
    let own = try contexts.directory.serverCertificate()
    let key = try PrivateKey.generateP256()
    // Clients check validity against the real time, not against a clock that a test has set.
    var validity = Validity(now: EventLoop.wallClockMilliseconds() / 1000, days: 30)
    if certificate == .expired {
      let end = validity.notBefore - Self.daySeconds
      validity = Validity(notBefore: end - Self.daySeconds, notAfter: end)
    }
    let authority =
      certificate == .foreign
      ? try CertificateAuthority.create(commonName: "Somebody else", validity: validity)
      : try contexts.directory.issuer(.service)
    let names = certificate == .otherName ? ["elsewhere.invalid"] : own.serverNames
    let issued = try authority.issueServer(
      names: names, publicKey: key.publicKey, validity: validity)
    return TLSIdentity(
      certificateChainPEM: Array(issued.pem.utf8), privateKeyPEM: Array(key.pkcs8PEM.utf8))
  }
}
