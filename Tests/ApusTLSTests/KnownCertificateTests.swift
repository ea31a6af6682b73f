import Testing

@testable import ApusTLS

@Suite("Certificates verified before")
struct KnownCertificateTests {
  let certificates: TestCertificates

  init() throws { certificates = try TestCertificates.make() }

  private func digest(_ byte: UInt8) -> [UInt8] { [UInt8](repeating: byte, count: 32) }

  @Test("A certificate is known while its whole chain is valid, and no other one is")
  func window() {
    let known = KnownCertificates()
    known.insert(digest(1), from: 100, to: 200)
    for (now, answer) in [(99, false), (100, true), (200, true), (201, false)] as [(Int64, Bool)] {
      #expect(known.contain(digest(1), now: now) == answer)
    }
    var other = digest(1)
    other[31] = 2
    #expect(!known.contain(other, now: 150))
  }

  @Test("The number of known certificates is bounded")
  func bounded() {
    let known = KnownCertificates(capacity: 10)
    for byte in 0..<25 as Range<UInt8> { known.insert(digest(byte), from: 0, to: 9) }
    #expect(known.count == 5)
    #expect(known.contain(digest(24), now: 5) && !known.contain(digest(0), now: 5))
  }

  @Test("Thousands are found by their digests, and recording one again uses no second slot")
  func many() {
    let known = KnownCertificates()
    func digest(_ number: Int) -> [UInt8] {
      (0..<32).map { UInt8(truncatingIfNeeded: number >> (8 * ($0 % 4))) }
    }
    for _ in 0..<2 {
      for number in 0..<5000 as Range<Int> {
        known.insert(digest(number), from: Int64(number), to: Int64(number) + 10)
      }
    }
    #expect(known.count == 5000)
    let right = (0..<5000 as Range<Int>).filter { number in
      known.contain(digest(number), now: Int64(number) + 10)
        && !known.contain(digest(number), now: Int64(number) + 11)
        && !known.contain(digest(number), now: Int64(number) - 1)
    }
    #expect(right.count == 5000)
    #expect((5000..<10_000 as Range<Int>).allSatisfy { !known.contain(digest($0), now: 5) })
  }

  @Test("Times beyond 32 bits are clamped safely")
  func times() {
    let known = KnownCertificates()
    known.insert(digest(1), from: -5, to: .max)
    #expect(known.contain(digest(1), now: 0) && known.contain(digest(1), now: 4_294_967_295))
    #expect(!known.contain(digest(1), now: 4_294_967_296))
    known.insert(digest(2), from: -9, to: -5)
    #expect(known.count == 1 && !known.contain(digest(2), now: -7))
  }

  @Test(
    "The second handshake uses the digest, and a certificate never verified is rejected",
    arguments: [TLSVersion.v1_2, .v1_3])
  func handshakes(version: TLSVersion) throws {
    let server = try TLSContext(
      server: certificates.serverConfiguration {
        $0.clientCertificates = .required(authoritiesPEM: certificates.authority)
        $0.sessionTickets = false
      })
    func handshake(_ identity: TLSIdentity) throws -> Pair {
      let client = try TLSContext(
        client: certificates.clientConfiguration {
          ($0.minimumVersion, $0.maximumVersion) = (version, version)
          $0.identity = identity
        })
      let pair = try Pair(client: client, server: server)
      pair.client.start()
      pair.exchange()
      return pair
    }
    for _ in 0..<3 {
      let pair = try handshake(certificates.device)
      #expect(pair.server.connection.isEstablished)
      #expect(pair.server.connection.peerCertificateDER == der(certificates.device))
      #expect(server.knownCertificateCount == 1)
    }
    #expect(try !handshake(certificates.expiredDevice).server.connection.isEstablished)
    #expect(try !handshake(certificates.deviceOfOtherAuthority).server.connection.isEstablished)
    #expect(server.knownCertificateCount == 1)
    // Through an intermediate, which the client sends along.
    #expect(try handshake(certificates.deviceByIntermediate).server.connection.isEstablished)
    #expect(server.knownCertificateCount == 2)
  }
}
