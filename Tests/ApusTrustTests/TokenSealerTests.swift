import ApusRandom
import ApusModel
import COpenSSL
import Testing

@testable import ApusTrust

/// The key of RFC 5297, appendix A.1.
private let rfcKey = Fixtures.hex(
  "fffefdfc fbfaf9f8 f7f6f5f4 f3f2f1f0 f0f1f2f3 f4f5f6f7 f8f9fafb fcfdfeff")

private func sealer(_ keys: [TokenSealingKeys.Key]) throws -> TokenSealer {
  TokenSealer(try TokenSealingKeys(keys))
}

private func block(_ hex: String) -> Block128 {
  let bytes = Fixtures.hex(hex)
  return Block128(bytes.span)
}

private func token(_ hex: String) throws -> DeviceToken {
  try #require(DeviceToken(hex: hex))
}

private let claims = TokenClaims(
  device: DeviceID(0x0123_4567_89ab_cdef), topic: TopicKey(app: AppID(7), suffix: .voip),
  environment: .development, generation: 0x0203)

@Suite("Device tokens sealed by AES-128-SIV")
struct TokenSealerTests {
  @Test("One block is encrypted as in FIPS 197, appendix C.1, and RFC 5297, appendix A.1")
  func blocks() {
    let fips = Array(UInt8(0)...15)
    let cipher = AESBlock(key: fips.span)
    defer { cipher.free() }
    #expect(
      cipher.encrypt(block("00112233445566778899aabbccddeeff"))
        == block("69c4e0d86a7b0430d8cdb78070b4c55a"))
    let stream = AESBlock(key: rfcKey.span.extracting(16..<32))
    defer { stream.free() }
    #expect(
      stream.encrypt(block("85632d07c6e8f37f150acd320a2ecc93"))
        == block("51e218d2c5a2ab8c4345c4a623b2f08f"))
  }

  @Test("Doubling matches RFC 5297, appendix A.1, and the subkeys of RFC 4493")
  func doubling() {
    #expect(
      block("0e04dfafc1efbf040140582859bf073a").doubled
        == block("1c09bf5f83df7e080280b050b37e0e74"))
    #expect(
      block("fbeed618357133667c85e08f7236a8de").doubled
        == block("f7ddac306ae266ccf90bc11ee46d513b"))
    #expect(block("80000000000000000000000000000000").doubled == Block128(high: 0, low: 0x87))
    #expect(block("00000000000000008000000000000000").doubled == Block128(high: 1, low: 0))
  }

  @Test("A token equals that of an implementation written from the RFC")
  func vectors() throws {
    let sealer = try sealer([.init(id: 5, bytes: rfcKey)])
    let text = "051f3390bb967baff76a63ad14abb16f480940fa58f409d004e220b836421395"
    #expect(sealer.seal(claims).hex == text)
    #expect(sealer.open(try token(text)) == claims)
    let zero = TokenClaims(
      device: DeviceID(0), topic: TopicKey(app: .base), environment: .production, generation: 0)
    let zeroText = "056aee95ce0b4b7b91e0f6612cea1a98d73eb12bc65a52b56929855122547baf"
    #expect(sealer.seal(zero).hex == zeroText)
    #expect(sealer.open(try token(zeroText)) == zero)
  }

  @Test("An authentic token with reserved bits or an unknown suffix is rejected")
  func reserved() throws {
    let sealer = try sealer([.init(id: 5, bytes: rfcKey)])
    // The flags are 2f and 12: bit 5 is set, and the suffix is 9.
    for text in [
      "0572062f032a700633a9f4c9980e6e13fad236237aaf4a249993a66b12c34332",
      "05822be77d657b2ee16584580d56d4b1e9baf93513b4a9ea55bb76909f299dd1",
    ] {
      #expect(sealer.open(try token(text)) == nil)
    }
  }

  @Test("A token with any one bit changed is rejected")
  func forged() throws {
    let sealer = try sealer([.init(id: 5, bytes: rfcKey), .init(id: 4, bytes: Array(0..<32))])
    let bytes = sealer.seal(claims).bytes
    for bit in 0..<256 {
      var changed = bytes
      changed[bit / 8] ^= 1 << UInt8(bit % 8)
      let token = try #require(DeviceToken(bytes: changed))
      #expect(sealer.open(token) == nil, "bit \(bit)")
    }
  }

  @Test("Many tokens are opened together like one by one", arguments: [0, 1, 2, 31, 32, 33, 200])
  func batch(count: Int) throws {
    let old = TokenSealingKeys.Key(id: 4, bytes: Array(0..<32))
    let both = try sealer([old, .init(id: 5, bytes: rfcKey)])
    let sealers = [try sealer([old]), both, try sealer([.random(id: 6)])]
    var random = SeededRandom(seed: UInt64(count))
    var opened: [TokenClaims?] = [claims]
    // Twice, because the memory is reused.
    for _ in 0..<2 {
      let tokens = (0..<count).map { index in
        var token = sealers[index % 3].seal(
          TokenClaims(
            device: DeviceID(random.next()),
            topic: TopicKey(app: AppID(UInt32(index)), suffix: .voip),
            environment: .production, generation: UInt16(index)))
        if index % 5 == 0 { token.words.2 ^= 1 << (random.next() % 64) }
        return token
      }
      both.open(tokens, into: &opened)
      #expect(opened == tokens.map(both.open))
      for index in 0..<count {
        #expect((opened[index] != nil) == (index % 3 != 2 && index % 5 != 0), "token \(index)")
      }
    }
  }

  @Test("All claims are sealed and opened unchanged", arguments: Environment.allCases)
  func roundTrip(environment: Environment) throws {
    let sealer = try sealer([.random(id: 0)])
    for suffix in TopicSuffix.allCases {
      for (device, app, generation) in [
        (0, 0, 0), (.max, .max, .max), (1 << 63, 1 << 31, 1 << 15), (1, 1, 1),
      ] as [(UInt64, UInt32, UInt16)] {
        let claims = TokenClaims(
          device: DeviceID(device), topic: TopicKey(app: AppID(app), suffix: suffix),
          environment: environment, generation: generation)
        #expect(sealer.open(sealer.seal(claims)) == claims)
      }
    }
  }

  @Test("The last key seals, every key opens, and a removed key does not")
  func rotation() throws {
    let old = TokenSealingKeys.Key.random(id: 200)
    let new = TokenSealingKeys.Key.random(id: 3)
    let before = try sealer([old]).seal(claims)
    let both = try sealer([old, new])
    let after = both.seal(claims)
    #expect(before[0] == 200)
    #expect(after[0] == 3)
    #expect(both.open(before) == claims)
    #expect(both.open(after) == claims)
    #expect(try sealer([new]).open(before) == nil)
    #expect(try sealer([new]).seal(claims) == after)
  }

  @Test("An empty, duplicate or wrongly sized set of keys is rejected, and no key is ever printed")
  func keys() {
    typealias Fault = TokenSealingKeys.Fault
    let key = TokenSealingKeys.Key(id: 1, bytes: rfcKey)
    #expect(throws: Fault.noKeys) { try TokenSealingKeys([]) }
    #expect(throws: Fault.duplicateID(1)) { try TokenSealingKeys([key, key]) }
    #expect(throws: Fault.length(id: 2, bytes: 16)) {
      try TokenSealingKeys([key, .init(id: 2, bytes: Array(rfcKey.prefix(16)))])
    }
    #expect("\(key)" == "token-sealing key 1")
    #expect(TokenSealingKeys.Key.random(id: 1).bytes != TokenSealingKeys.Key.random(id: 1).bytes)
  }

  @Test("Tag and ciphertext are those of OpenSSL's AES-128-SIV", arguments: [0x5eed as UInt64])
  func oracle(seed: UInt64) throws {
    var random = SeededRandom(seed: seed)
    for round in 0..<1000 {
      let key = (0..<32).map { _ in UInt8(truncatingIfNeeded: random.next()) }
      let claims = TokenClaims(
        device: DeviceID(random.next()),
        topic: TopicKey(
          app: AppID(UInt32(truncatingIfNeeded: random.next())),
          suffix: TopicSuffix.allCases[Int(random.next() % UInt64(TopicSuffix.allCases.count))]),
        environment: random.next() & 1 == 0 ? .production : .development,
        generation: UInt16(truncatingIfNeeded: random.next()))
      let sealed = try sealer([.init(id: 9, bytes: key)]).seal(claims)
      let plain =
        bigEndian(claims.device.rawValue, 8) + bigEndian(UInt64(claims.topic.app.rawValue), 4)
        + [claims.environment.rawValue | claims.topic.suffix.rawValue << 1]
        + bigEndian(UInt64(claims.generation), 2)
      #expect(sealed.bytes == [9] + sivByOpenSSL(key: key, plain), "seed \(seed), round \(round)")
    }
  }

  private func bigEndian(_ value: UInt64, _ count: Int) -> [UInt8] {
    (0..<count).map { UInt8(truncatingIfNeeded: value >> UInt64(8 * (count - 1 - $0))) }
  }

  /// Tag and ciphertext from OpenSSL's own mode.
  private func sivByOpenSSL(key: [UInt8], _ plain: [UInt8]) -> [UInt8] {
    let cipher = EVP_CIPHER_fetch(nil, "AES-128-SIV", nil)
    defer { EVP_CIPHER_free(cipher) }
    let context = EVP_CIPHER_CTX_new()
    defer { EVP_CIPHER_CTX_free(context) }
    var output = [UInt8](repeating: 0, count: plain.count)
    var tag = [UInt8](repeating: 0, count: 16)
    var count: Int32 = 0
    #expect(EVP_EncryptInit_ex2(context, cipher, key, nil, nil) == 1)
    #expect(EVP_EncryptUpdate(context, &output, &count, plain, Int32(plain.count)) == 1)
    #expect(EVP_EncryptFinal_ex(context, nil, &count) == 1)
    #expect(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, 16, &tag) == 1)
    return tag + output
  }
}
