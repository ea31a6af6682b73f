import ApusModel
import ApusWire
import Testing

@testable import ApusTrust

@Suite("Digests and random numbers")
struct DigestTests {
  @Test("SHA-1 and SHA-256 of \"abc\" and of nothing are those of FIPS 180 and RFC 3174")
  func vectors() {
    let abc = Array("abc".utf8)
    let nothing: [UInt8] = []
    let digest = SHA256Digest(of: abc.span)
    #expect(digest.hex == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
    #expect(digest.bytes == Fixtures.hex(digest.hex))
    let ofNothing = SHA256Digest(of: nothing.span)
    #expect(ofNothing.hex == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
    #expect(ofNothing != digest)
    let short = SHA1Digest.of(abc.span)
    #expect(short == Fixtures.hex("a9993e364706816aba3e25717850c26c9cd0d89d"))
    let shortOfNothing = SHA1Digest.of(nothing.span)
    #expect(shortOfNothing == Fixtures.hex("da39a3ee5e6b4b0d3255bfef95601890afd80709"))
  }

  @Test("A topic's hash in the device protocol is the SHA-1 of its text")
  func topicHash() {
    let topic = Array("com.apple.madrid".utf8)
    let hash = TopicHash(of: topic.span)
    var bytes: [UInt8] = []
    bytes.append(hash)
    // As computed by `printf com.apple.madrid | sha1sum`.
    #expect(bytes == Fixtures.hex("e4e6d952954168d0a5db02dbaf27cc35fc18d159"))
  }

  @Test("Spans are compared correctly wherever they differ")
  func constantTime() {
    let bytes = Array(UInt8(0)..<40)
    func equal(_ left: [UInt8], _ right: [UInt8]) -> Bool {
      constantTimeEquals(left.span, right.span)
    }
    #expect(equal(bytes, bytes))
    #expect(equal([], []))
    #expect(!equal(bytes, Array(bytes.dropLast())))
    for index in bytes.indices {
      var other = bytes
      other[index] ^= 0x80
      #expect(!equal(bytes, other))
    }
  }

  @Test("An id is a version 4 UUID, and no two are equal")
  func ids() {
    let generator = RandomIDs()
    let other = RandomIDs()
    var seen: Set<String> = []
    for index in 0..<3000 {
      let id = index % 3 == 0 ? randomID() : index % 3 == 1 ? generator.next() : other.next()
      let text = Array(id.text)
      #expect(text[14] == "4" && "89AB".contains(text[19]))
      seen.insert(id.text)
    }
    #expect(seen.count == 3000)
  }

  @Test("Random bytes have the requested number, and differ")
  func random() {
    #expect(randomBytes(0) == [])
    #expect(randomBytes(33).count == 33)
    #expect(randomBytes(32) != randomBytes(32))
  }
}
