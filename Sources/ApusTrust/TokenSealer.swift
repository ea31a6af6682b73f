package import ApusModel

/// Issues device tokens and unseals them, for one worker.
///
/// A token is the key's id (1 byte), the tag (16) and the ciphertext (15) of AES-128-SIV (RFC 5297) without associated
/// data over
///
///     device id (8) | app id (4) | bit 0 environment, bits 1-4 topic suffix, bits 5-7 zero (1) | generation (2)
///
/// big-endian. The same claims give the same token under one key; a token that was not issued here cannot be unsealed,
/// so a forged or foreign one is rejected without a lookup.
///
/// A string of 15 bytes is shorter than a block, so S2V takes one AES block (its mask is the same for all strings, and
/// computed once) and CTR another: some 40 ns, without allocation. OpenSSL's own AES-SIV sets up its keys again for
/// each string, which takes 2,300 ns; the tests compare against it.
package final class TokenSealer {
  private struct Entry {
    let id: UInt8
    /// K1, which computes the tag.
    let tagCipher: AESBlock
    /// K2, which computes the key stream.
    let streamCipher: AESBlock
    /// The constant that S2V adds to the padded string, and CMAC to its only block.
    let mask: Block128

    init(_ key: TokenSealingKeys.Key) {
      let bytes = key.bytes.span
      id = key.id
      tagCipher = AESBlock(key: bytes.extracting(0..<16))
      streamCipher = AESBlock(key: bytes.extracting(16..<32))
      // RFC 5297, section 2.4: T = dbl(CMAC(zero)) xor pad(string). RFC 4493, section 2.4: CMAC of one whole block
      // is AES(block xor subkey), with the subkey dbl(AES(0)).
      let subkey = tagCipher.encrypt(.zero).doubled
      mask = tagCipher.encrypt(subkey).doubled ^ subkey
    }

    /// S2V of a string padded to a block, which is the tag.
    func tag(_ padded: Block128) -> Block128 { tagCipher.encrypt(padded ^ mask) }

    /// The key stream starting at `tag`.
    func stream(_ tag: Block128) -> Block128 { streamCipher.encrypt(counter(tag)) }

    /// Two bits of the counter are cleared: RFC 5297, section 2.6.
    func counter(_ tag: Block128) -> Block128 {
      Block128(high: tag.high, low: tag.low & 0x7fff_ffff_7fff_ffff)
    }
  }

  private let entries: [Entry]
  /// Memory for `open(_:into:)`, two words per token.
  private var blocks: [UInt64] = []
  private var opened: [UInt64] = []

  package init(_ keys: TokenSealingKeys) {
    entries = keys.keys.map(Entry.init)
  }

  deinit {
    for entry in entries {
      entry.tagCipher.free()
      entry.streamCipher.free()
    }
  }

  /// The token for `claims` under the newest key.
  package func seal(_ claims: TokenClaims) -> DeviceToken {
    let entry = entries[entries.count - 1]
    let padded = Self.pack(claims)
    let tag = entry.tag(padded)
    let sealed = padded ^ entry.stream(tag)
    return DeviceToken(
      words: (
        UInt64(entry.id) << 56 | tag.high >> 8,
        tag.high << 56 | tag.low >> 8,
        tag.low << 56 | sealed.high >> 8,
        sealed.high << 56 | sealed.low >> 8
      ))
  }

  /// The token's claims; nil if it was not issued here, or its key is no longer in use.
  package func open(_ token: DeviceToken) -> TokenClaims? {
    guard let index = entries.firstIndex(where: { $0.id == Self.keyID(token) }) else { return nil }
    let entry = entries[index]
    let tag = Self.tag(token)
    let padded = Self.padded(token, entry.stream(tag))
    return Self.claims(padded, tag: tag, expected: entry.tag(padded))
  }

  /// The claims of each token, as with `open`.
  ///
  /// The blocks of all tokens are passed to OpenSSL at once: a call costs more than its block, and the processor works
  /// on several independent blocks at a time.
  package func open(_ tokens: [DeviceToken], into claims: inout [TokenClaims?]) {
    claims.removeAll(keepingCapacity: true)
    guard tokens.count > 1 else {
      for token in tokens { claims.append(open(token)) }
      return
    }
    claims.append(contentsOf: repeatElement(nil, count: tokens.count))
    if blocks.count < 2 * tokens.count {
      blocks = [UInt64](repeating: 0, count: 2 * tokens.count)
      opened = blocks
    }
    // Usually there is one key; if there are several, each processes all tokens but decides only on its own.
    for entry in entries where tokens.contains(where: { Self.keyID($0) == entry.id }) {
      open(tokens, under: entry, into: &claims)
    }
  }

  private func open(
    _ tokens: [DeviceToken], under entry: Entry, into claims: inout [TokenClaims?]
  ) {
    let wordCount = 2 * tokens.count
    Self.setCounters(&blocks, tokens, under: entry)
    entry.streamCipher.encrypt(blocks: &blocks, wordCount: wordCount)
    Self.unseal(tokens, under: entry, &blocks, into: &opened)
    entry.tagCipher.encrypt(blocks: &blocks, wordCount: wordCount)
    Self.read(tokens, of: entry, opened, expected: blocks, into: &claims)
  }

  // Arrays stored in an object are checked for uniqueness on each write: hence parameters, and spans of these.

  /// `blocks` become the input of the key stream.
  private static func setCounters(
    _ blocks: inout [UInt64], _ tokens: [DeviceToken], under entry: Entry
  ) {
    var blocks = blocks.mutableSpan
    for index in tokens.indices { blocks.setBlock(index, entry.counter(tag(tokens[index]))) }
  }

  /// `blocks` are the key stream, and become the input of the tags; `opened` becomes the tokens' plaintext.
  private static func unseal(
    _ tokens: [DeviceToken], under entry: Entry, _ blocks: inout [UInt64],
    into opened: inout [UInt64]
  ) {
    var blocks = blocks.mutableSpan
    var opened = opened.mutableSpan
    for index in tokens.indices {
      let padded = padded(tokens[index], blocks.span.block(index))
      opened.setBlock(index, padded)
      blocks.setBlock(index, padded ^ entry.mask)
    }
  }

  private static func read(
    _ tokens: [DeviceToken], of entry: Entry, _ opened: [UInt64], expected: [UInt64],
    into claims: inout [TokenClaims?]
  ) {
    let (opened, expected) = (opened.span, expected.span)
    var output = claims.mutableSpan
    for index in tokens.indices where keyID(tokens[index]) == entry.id {
      output[index] = Self.claims(
        opened.block(index), tag: tag(tokens[index]), expected: expected.block(index))
    }
  }

  // MARK: The parts of a token

  private static func keyID(_ token: DeviceToken) -> UInt8 {
    UInt8(truncatingIfNeeded: token.words.0 >> 56)
  }

  private static func tag(_ token: DeviceToken) -> Block128 {
    let words = token.words
    return Block128(
      high: words.0 << 8 | words.1 >> 56, low: words.1 << 8 | words.2 >> 56)
  }

  /// The padded string of a token, decrypted with the key stream.
  private static func padded(_ token: DeviceToken, _ stream: Block128) -> Block128 {
    let words = token.words
    var padded = Block128(high: words.2 << 8 | words.3 >> 56, low: words.3 << 8) ^ stream
    padded.low = padded.low & ~0xff | padding
    return padded
  }

  /// `expected` is the tag computed for the string.
  private static func claims(
    _ padded: Block128, tag: Block128, expected: Block128
  ) -> TokenClaims? {
    let difference = expected ^ tag
    // Compares all bits in constant time, so timing does not reveal where a presented tag differs.
    guard difference.high | difference.low == 0 else { return nil }
    return unpack(padded)
  }

  /// RFC 5297, section 2.4, pad: a one bit, then zeros. It fills the 16th byte.
  private static let padding: UInt64 = 0x80

  private static func pack(_ claims: TokenClaims) -> Block128 {
    let flags = UInt64(claims.environment.rawValue) | UInt64(claims.topic.suffix.rawValue) << 1
    let app = UInt64(claims.topic.app.rawValue)
    return Block128(
      high: claims.device.rawValue,
      low: app << 32 | flags << 24 | UInt64(claims.generation) << 8 | padding)
  }

  private static func unpack(_ block: Block128) -> TokenClaims? {
    let flags = UInt8(truncatingIfNeeded: block.low >> 24)
    guard flags & 0b1110_0000 == 0, let environment = Environment(rawValue: flags & 1),
      let suffix = TopicSuffix(rawValue: flags >> 1)
    else { return nil }
    return TokenClaims(
      device: DeviceID(block.high),
      topic: TopicKey(app: AppID(UInt32(block.low >> 32)), suffix: suffix),
      environment: environment,
      generation: UInt16(truncatingIfNeeded: block.low >> 8))
  }
}

extension Span<UInt64> {
  /// The block at that index, of words in native byte order.
  fileprivate func block(_ index: Int) -> Block128 {
    Block128(high: self[2 * index].bigEndian, low: self[2 * index + 1].bigEndian)
  }
}

extension MutableSpan<UInt64> {
  fileprivate mutating func setBlock(_ index: Int, _ block: Block128) {
    self[2 * index] = block.high.bigEndian
    self[2 * index + 1] = block.low.bigEndian
  }
}
