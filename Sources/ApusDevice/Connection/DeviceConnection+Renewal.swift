import ApusRandom
import ApusModel
import ApusTLS
import ApusTrust
import ApusWire

extension DeviceConnection {
  /// A renewal of the certificate in progress.
  struct Renewal {
    var plan: RenewalPlan
    var schedule: RenewalSchedule
    /// The last key that the service was asked to certify; used again until it is certified.
    var nextKey: PrivateKey?
    private let spread: Int64
    /// The service's clock in Unix milliseconds, minus the loop's.
    private var clockOffset: Int64 = 0

    init(_ plan: RenewalPlan, seed: UInt64) {
      var generator = SeededRandom(seed: seed)
      self.init(plan, spread: Int64.random(in: 0...1000, using: &generator))
    }

    private init(_ plan: RenewalPlan, spread: Int64) {
      self.plan = plan
      self.spread = spread
      schedule = RenewalSchedule(
        notBefore: plan.certificate.notBefore, notAfter: plan.certificate.notAfter, spread: spread)
    }

    /// The service sent its time.
    mutating func connected(serverMilliseconds: UInt64, nowMilliseconds: UInt64) {
      clockOffset = Int64(clamping: serverMilliseconds) - Int64(clamping: nowMilliseconds)
      schedule.connected(serverMilliseconds: serverMilliseconds, nowMilliseconds: nowMilliseconds)
    }

    /// The service said that it will stop accepting the certificate before it expires.
    mutating func advised(withinSeconds: UInt32, nowMilliseconds: UInt64) {
      schedule.advised(
        withinSeconds: withinSeconds, spread: spread, nowMilliseconds: nowMilliseconds)
    }

    /// The renewal after this one, on the same connection.
    func next(_ certificate: Certificate, _ key: PrivateKey, nowMilliseconds: UInt64) -> Renewal {
      var next = Renewal(
        RenewalPlan(certificate: certificate, key: key, makesNewKey: plan.makesNewKey),
        spread: spread)
      next.connected(
        serverMilliseconds: UInt64(clamping: Int64(clamping: nowMilliseconds) + clockOffset),
        nowMilliseconds: nowMilliseconds)
      return next
    }
  }

  func renewIfDue() {
    guard client.isConnected, renewal?.schedule.takeDue(nowMilliseconds: now) == true,
      let plan = renewal?.plan
    else { return }
    do throws(TrustFault) {
      let key: PrivateKey
      if !plan.makesNewKey {
        key = plan.key
      } else if let asked = renewal?.nextKey {
        key = asked
      } else {
        key = try .generateP256()
      }
      renewal?.nextKey = key
      let request = CourierRenewalRequest(certificateRequest: try CertificateRequest.make(for: key))
      _ = client.requestRenewal(request, to: &pending)
    } catch {
      notRenewed("\(error)", retrySeconds: nil)
    }
  }

  func renewed(_ issuance: CourierIssuance) {
    guard let renewal, let key = renewal.nextKey else { return }
    switch issuance.status {
    case .accepted: break
    case .pending:
      self.renewal?.schedule.pending(
        retrySeconds: issuance.retrySeconds, nowMilliseconds: now)
      return
    default:
      return notRenewed(issuance.text.span.text, retrySeconds: issuance.retrySeconds)
    }
    do throws(TrustFault) {
      let identity = try DeviceIdentity(certificates: issuance.certificates, key: key)
      let certificate = try Certificate(pem: identity.certificatePEM)
      guard let context = delegate?.deviceConnection(self, renewed: identity) else {
        // The delegate has already reported why it could not store it.
        self.renewal?.schedule.refused(retrySeconds: nil, nowMilliseconds: now)
        return
      }
      self.renewal = renewal.next(certificate, key, nowMilliseconds: now)
      configuration.context = context
      session = nil
      hasOldIdentity = true
    } catch {
      notRenewed("\(error)", retrySeconds: nil)
    }
  }

  private func notRenewed(_ reason: String, retrySeconds: UInt32?) {
    renewal?.schedule.refused(retrySeconds: retrySeconds, nowMilliseconds: now)
    delegate?.deviceConnection(self, notRenewed: reason)
  }
}
