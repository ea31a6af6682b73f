import Testing

@testable import ApusTrust

@Suite("Sealed messages")
struct SealingBoxTests {
  private static let key = Array(UInt8(0)..<32)
  private let box = SealingBox(key: Self.key)
  private let context = Array("place".utf8)

  @Test(
    "A message opens with its key and context, however long it is", arguments: [0, 1, 16, 70_000])
  func roundTrip(count: Int) {
    let message = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 7) }
    let sealed = box.seal(message, context: context)
    #expect(sealed.count == count + SealingBox.overhead)
    #expect(box.open(sealed, context: context) == message)
    #expect(box.seal(message, context: context) != sealed)
  }

  @Test("Another key, another context, a changed or missing byte: it does not open")
  func altered() {
    let sealed = box.seal(Array("secret".utf8), context: context)
    #expect(SealingBox(key: Self.key.reversed()).open(sealed, context: context) == nil)
    #expect(box.open(sealed, context: []) == nil)
    for index in sealed.indices {
      var changed = sealed
      changed[index] ^= 1
      #expect(box.open(changed, context: context) == nil)
      #expect(box.open(Array(sealed.prefix(index)), context: context) == nil)
    }
  }

  @Test("The format is nonce, AES-256-GCM ciphertext and tag")
  func format() {
    // Test case 16 of the GCM specification by McGrew and Viega.
    let key = Fixtures.hex("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308")
    let sealed = Fixtures.hex(
      "cafebabefacedbaddecaf888"
        + "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
        + "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662"
        + "76fc6ece0f4e1768cddf8853bb2d551b")
    let message = Fixtures.hex(
      "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
        + "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39")
    let context = Fixtures.hex("feedfacedeadbeeffeedfacedeadbeefabaddad2")
    #expect(SealingBox(key: key).open(sealed, context: context) == message)
  }
}
