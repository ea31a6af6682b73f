import ApusLoop
import ApusModel
import ApusServer
import ApusTLS
import ApusTesting
import ApusTrust
import Testing

/// Many who come at once: an acceptor takes a few steps of their handshakes in a turn.
@Suite("A crowd at the door")
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

  @Test("All who send their flights at once are served, and so is who was there before")
  func crowd() throws {
    let before = try service.provider()
    let guests = try guests()
    for guest in guests {
      while !guest.tls.isEstablished, guest.failure == nil { try guest.receive() }
    }
    // All second flights at once too, and before any of the answers is read.
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

  @Test("Who leaves while waiting, or stops half-way, is in nobody's way")
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
