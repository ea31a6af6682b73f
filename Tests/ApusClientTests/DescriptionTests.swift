import ApusModel
import Testing

@testable import ApusClient

/// What `print` shows, written by hand.
@Suite("What the client reports can be printed")
struct DescriptionTests {
  private let id = NotificationID(high: 0x123e_4567_e89b_12d3, low: 0xa456_4266_5544_000a)
  private let idText = "apns-id 123E4567-E89B-12D3-A456-42665544000A"

  private func rejection() -> PushRejection {
    PushRejection(
      reason: RejectionReason(.unregistered), status: 410,
      timestampMilliseconds: 1_700_000_000_000, apnsID: id)
  }

  @Test("An accepted push is printed with its ids")
  func accepted() {
    #expect("\(SendOutcome.accepted(apnsID: id, uniqueID: nil))" == "accepted, \(idText)")
    #expect(
      "\(SendOutcome.accepted(apnsID: id, uniqueID: "ABC"))"
        == "accepted, \(idText), apns-unique-id ABC")
  }

  @Test("A rejection is printed with status, reason, times and id")
  func rejected() {
    #expect(
      "\(SendOutcome.rejected(rejection()))"
        == "rejected: 410 Unregistered, inactive since 1700000000000 (Unix milliseconds), \(idText)"
    )
    let busy = PushRejection(
      reason: RejectionReason(rawValue: ""), status: 503, apnsID: id, retryAfterSeconds: 7)
    #expect("\(busy)" == "503 no reason given, retry after 7 s, \(idText)")
    #expect(
      "\(PushRejection(binaryStatus: 8, apnsID: id))"
        == "400 BadDeviceToken, status 8 on the binary interface, \(idText)")
  }

  @Test("A push without an answer is printed with the cause and what sending again does")
  func unknown() {
    #expect(
      "\(SendOutcome.unknown(UnknownCause(.timedOut), retryMayDuplicate: true))"
        == "no answer (timed out); sending it again may show it twice")
    #expect(
      "\(SendOutcome.unknown(UnknownCause(.connectionFailed, "refused"), retryMayDuplicate: false))"
        == "no answer (connection failed: refused); sending it again cannot show it twice")
  }

  @Test("Each outcome of a bulk send is printed with the push's position and id")
  func bulk() {
    func text(_ result: Result<SendOutcome, PushRequestError>) -> String {
      "\(BulkOutcome(index: 3, apnsID: id, result: result))"
    }
    #expect(text(.success(.accepted(apnsID: id, uniqueID: nil))) == "3: accepted, \(idText)")
    #expect(
      text(.success(.unknown(UnknownCause(.cancelled), retryMayDuplicate: false)))
        == "3: no answer (cancelled); sending it again cannot show it twice, \(idText)")
    #expect(
      text(.failure(PushRequestError(.invalidTopic, "the topic is empty")))
        == "3: not sent, because the topic is empty, \(idText)")
  }

  @Test("A push is printed without its whole token and without its payload")
  func request() {
    var request = PushRequest(
      token: "00010203aabbccdd", topic: "com.example.app", payload: Array("{}".utf8))
    #expect("\(request)" == "alert to 00010203…, topic com.example.app, 2 bytes")
    request.priority = .powerSaving
    request.expirationSeconds = 0
    request.collapseID = "score"
    request.id = id
    #expect(
      "\(request)"
        == "alert to 00010203…, topic com.example.app, priority 5, expiration 0, "
        + "collapse id \"score\", \(idText), 2 bytes")
    let short = PushRequest(token: "0a", topic: nil, pushType: .background, payload: [])
    #expect("\(short)" == "background to 0a, topic of the certificate, 0 bytes")
  }

  @Test("A dead token is printed whole")
  func feedback() {
    #expect(
      "\(FeedbackEntry(token: "0a0b", timeSeconds: 1_700_000_000))"
        == "0a0b, inactive since 1700000000 (Unix seconds)")
  }

  @Test("Metrics are printed in one line")
  func metrics() {
    var metrics = ClientMetrics()
    #expect(
      "\(metrics)"
        == "0 accepted, 0 rejected, 0 unknown, 0 sent again, 0 in flight, 0 waiting, "
        + "connections: 0, answers: none")
    metrics.waiting = 2
    metrics.waitingFor = .streams
    for _ in 0..<99 { metrics.latency.add(milliseconds: 3) }
    metrics.latency.add(milliseconds: 100)
    #expect(
      "\(metrics)"
        == "0 accepted, 0 rejected, 0 unknown, 0 sent again, 0 in flight, 2 waiting (streams), "
        + "connections: 0, answers: 100, half below 4 ms, 99 % below 4 ms")
    #expect(
      "\(BinaryStatistics(accepted: 4, rejected: 1, unknown: 2, connections: 3, corrected: 5))"
        == "4 accepted, 1 rejected, 2 unknown, 5 corrected, connections made: 3")
  }

  @Test("A credential is printed without its key and its password")
  func credential() {
    let secret = Array("SECRET".utf8)
    let credentials: [(ClientConfiguration.Credential, String)] = [
      (
        .providerToken(keyPEM: secret, keyID: "ABC123DEFG", teamID: "T1"),
        "key ABC123DEFG of team T1"
      ),
      (.certificate(certificatePEM: secret, keyPEM: secret), "a certificate"),
      (.pkcs12(secret, password: "SECRET"), "a certificate (PKCS #12)"),
      (
        .providerTokenFile(path: "a.p8", keyID: "ABC123DEFG", teamID: "T1"),
        "key ABC123DEFG of team T1 in a.p8"
      ),
      (.certificateFiles(certificatePath: "a.crt", keyPath: "a.key"), "the certificate in a.crt"),
      (.pkcs12File(path: "a.p12", password: "SECRET"), "the certificate in a.p12 (PKCS #12)"),
    ]
    for (credential, text) in credentials { #expect("\(credential)" == text) }
    var configuration = ClientConfiguration(
      endpoint: Endpoint(host: "localhost"), trustRoots: .pem(secret),
      credential: .pkcs12File(path: "a.p12", password: "SECRET"))
    configuration.proxy = ClientConfiguration.Proxy(
      Endpoint(host: "proxy", port: 3128), user: "me", password: "SECRET")
    let text = "\(configuration)"
    #expect(text.contains("proxy:3128 as me") && text.contains("given authorities"))
    #expect(!text.contains("SECRET") && !text.contains("83, 69"), "\(text)")
  }
}
