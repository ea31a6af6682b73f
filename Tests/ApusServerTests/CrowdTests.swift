import ApusLoop
import ApusModel
import ApusServer
import ApusTLS
import ApusTesting
import ApusTrust
import Testing

/// Many simultaneous clients: an acceptor processes a few handshake steps in a turn.
@Suite("Many simultaneous handshakes")
struct CrowdTests {
  let service: TestService

  init() throws { service = try Shared.service }

  /// Each has sent its first flight.
  private func guests() throws -> [Guest] {
    let authority = service.directory.serviceAuthority.certificate.pem
    let context = try TLSContext(
      client: TLSClientConfiguration(
        trustRoots: .authorities(PEM: Array(authority.utf8)), applicationProtocols: ["h2"],
        serverName: "localhost"))
    let address = service.address(.provider, .production)
    let guests = try (0..<Limits.handshakesPerTurn * 8).map { _ in try Guest(address, context) }
    for guest in guests { try guest.sendOutput() }
    return guests
  }

  @Test("Simultaneous handshakes all succeed, and earlier connections are served")
  func crowd() throws {
    let before = try service.provider()
    let guests = try guests()
    for guest in guests {
      while !guest.tls.isEstablished, guest.failure == nil { try guest.receive() }
    }
    // Also send all second flights at once, before reading any answer.
    for guest in guests { try guest.sendOutput() }
    for guest in guests.reversed() {
      // RFC 9113, section 3.4: the service's first frame is SETTINGS, type 4.
      while guest.plaintext.count < 9, guest.failure == nil { try guest.receive() }
      #expect(guest.failure == nil)
      #expect(guest.plaintext.dropFirst(3).first == 4)
      guest.tcp.close()
    }
    let headers = try service.pushHeaders(to: Shared.absentToken, authorization: nil)
    #expect(try before.exchange(headers, body: TestService.payload).status == 403)
  }

  @Test("A client that leaves or stops halfway does not delay the others")
  func leaving() throws {
    let guests = try guests()
    for (index, guest) in guests.enumerated() {
      switch index % 4 {
      case 0: guest.tcp.reset()
      case 1: guest.tcp.close()
      case 2: continue  // It never answers.
      default:
        while !guest.tls.isEstablished, guest.failure == nil { try guest.receive() }
        try guest.sendOutput()
        while guest.plaintext.count < 9, guest.failure == nil { try guest.receive() }
        #expect(guest.failure == nil)
      }
    }
  }
}
