/// Decodes the Huffman code: two symbols per table lookup if both codes together have at most 12 bits, as those of the
/// hex digits of a token do.
@safe final class HuffmanDecoder: @unchecked Sendable {
  static let shared = HuffmanDecoder()

  /// Bits per lookup.
  private static let lookBits = 12

  /// For each value of the next bits: how many of them are consumed (the low four bits), and as how many symbols. 0: a
  /// code longer than a lookup. One byte each: each lookup depends on the one before, and a small table stays in the
  /// first-level cache; nothing waits for the symbols.
  private let steps: UnsafeMutablePointer<UInt8>
  /// One or two symbols, in the order in which they are written.
  private let pairs: UnsafeMutablePointer<UInt16>
  /// The code length of the first symbol.
  private let firstBits: UnsafeMutablePointer<UInt8>
  /// All symbols in the order of their codes.
  private var symbols: [UInt16] = []
  // For each length: the first code, the number of codes, and the index of the first one's symbol.
  private var firstCodes = [UInt32](repeating: 0, count: HuffmanCode.longest + 1)
  private var counts = [UInt32](repeating: 0, count: HuffmanCode.longest + 1)
  private var firstPlaces = [Int](repeating: 0, count: HuffmanCode.longest + 1)

  private init() {
    unsafe steps = .allocate(capacity: 1 << Self.lookBits)
    unsafe pairs = .allocate(capacity: 1 << Self.lookBits)
    unsafe firstBits = .allocate(capacity: 1 << Self.lookBits)
    var code: UInt32 = 0
    for length in 1...HuffmanCode.longest {
      code <<= 1
      firstCodes[length] = code
      firstPlaces[length] = symbols.count
      for symbol in 0...HuffmanCode.endOfString where HuffmanCode.lengths[symbol] == length {
        symbols.append(UInt16(symbol))
        code += 1
      }
      counts[length] = code - firstCodes[length]
    }
    for place in 0..<1 << Self.lookBits { fill(place) }
  }

  deinit {
    unsafe steps.deallocate()
    unsafe pairs.deallocate()
    unsafe firstBits.deallocate()
  }

  private func fill(_ place: Int) {
    let bits = UInt64(place) << UInt64(64 - Self.lookBits)
    unsafe (steps[place], pairs[place], firstBits[place]) = (0, 0, 0)
    guard let (first, firstLength) = symbol(at: bits, 1...Self.lookBits) else { return }
    unsafe firstBits[place] = UInt8(firstLength)
    unsafe steps[place] = UInt8(firstLength) | 1 << 4
    unsafe pairs[place] = UInt16(first)
    let left = Self.lookBits - firstLength
    guard left > 0, let (second, length) = symbol(at: bits << UInt64(firstLength), 1...left) else {
      return
    }
    unsafe steps[place] = UInt8(firstLength + length) | 2 << 4
    unsafe pairs[place] |= UInt16(second) << 8
  }

  /// The symbol at the front of `bits` whose code has one of these lengths.
  private func symbol(at bits: UInt64, _ lengths: ClosedRange<Int>) -> (Int, Int)? {
    for length in lengths {
      let code = UInt32(truncatingIfNeeded: bits >> UInt64(64 - length))
      guard code >= firstCodes[length], code - firstCodes[length] < counts[length] else { continue }
      return (Int(symbols[firstPlaces[length] + Int(code - firstCodes[length])]), length)
    }
    return nil
  }

  /// Room for the text of this many coded bytes: the shortest codes have five bits, and each lookup writes two
  /// symbols.
  static func room(forCoded count: Int) -> Int { count * 8 / 5 + 2 }

  /// Decodes `source` into `target`, which has `room(forCoded:)`.
  ///
  /// - Returns: Bytes of the text; nil for an invalid code, or if not padded with up to seven bits of EOS (RFC 7541,
  ///   section 5.2).
  func decode(_ source: UnsafeBufferPointer<UInt8>, into target: UnsafeMutablePointer<UInt8>)
    -> Int?
  {
    let source = UnsafeRawBufferPointer(source)
    var reading = Reading()
    // Filled once per four lookups: a branch for each would be mispredicted about every third time.
    while source.count &- reading.offset >= 8 {
      unsafe reading.fill(from: source)
      var looksLeft = 4
      while looksLeft > 0 {
        looksLeft &-= 1
        if unsafe step(&reading, target) { continue }
        if reading.available < HuffmanCode.longest { break }
        guard unsafe longStep(&reading, target) else { return nil }
        looksLeft = 0
      }
    }
    while true {
      unsafe reading.fillUp(from: source)
      if reading.available < HuffmanCode.longest { break }
      if unsafe step(&reading, target) { continue }
      guard unsafe longStep(&reading, target) else { return nil }
    }
    return unsafe end(reading, target)
  }

  /// The state of decoding a text.
  private struct Reading {
    var offset = 0
    /// Starting at the most significant bit. After `available` bits come those that follow in the source, or zeros.
    var bits: UInt64 = 0
    var available = 0
    /// Bytes written.
    var count = 0

    /// Takes as many whole bytes as fit; at least eight must remain.
    @inline(__always)
    mutating func fill(from source: UnsafeRawBufferPointer) {
      let next = unsafe source.loadUnaligned(fromByteOffset: offset, as: UInt64.self)
      bits |= UInt64(bigEndian: next) &>> UInt64(available)
      offset &+= (63 &- available) &>> 3
      available |= 56
    }

    /// The same near the end.
    mutating func fillUp(from source: UnsafeRawBufferPointer) {
      while offset < source.count, available <= 56 {
        bits |= UInt64(unsafe source[offset]) << UInt64(56 - available)
        available += 8
        offset += 1
      }
    }

    @inline(__always)
    mutating func consume(_ length: Int) {
      bits &<<= UInt64(length)
      available &-= length
    }
  }

  /// One lookup; false if the code is longer.
  @inline(__always)
  private func step(_ reading: inout Reading, _ target: UnsafeMutablePointer<UInt8>) -> Bool {
    let place = Int(truncatingIfNeeded: reading.bits &>> UInt64(64 &- Self.lookBits))
    let step = unsafe steps[place]
    guard step != 0 else { return false }
    // If it is one symbol, the next one overwrites the other byte.
    unsafe UnsafeMutableRawPointer(target + reading.count).storeBytes(
      of: pairs[place].littleEndian, as: UInt16.self)
    reading.count &+= Int(step &>> 4)
    reading.consume(Int(step & 0xf))
    return true
  }

  /// A complete code that is longer than a lookup; false if it is invalid.
  private func longStep(_ reading: inout Reading, _ target: UnsafeMutablePointer<UInt8>) -> Bool {
    guard
      let (symbol, length) = symbol(at: reading.bits, Self.lookBits + 1...HuffmanCode.longest),
      symbol < HuffmanCode.endOfString
    else { return false }
    unsafe target[reading.count] = UInt8(symbol)
    reading.count += 1
    reading.consume(length)
    return true
  }

  /// The last bits, one symbol at a time: the padding follows them.
  private func end(
    _ rest: Reading, _ target: UnsafeMutablePointer<UInt8>
  ) -> Int? {
    var reading = rest
    while reading.available > 0 {
      let (bits, available) = (reading.bits, reading.available)
      // Followed by ones, they read as if the padding continued.
      let padded = bits | (UInt64.max >> UInt64(available))
      let place = Int(padded >> UInt64(64 - Self.lookBits))
      var (next, length) = unsafe (Int(pairs[place] & 0xff), Int(firstBits[place]))
      if length == 0, available > Self.lookBits,
        let long = symbol(at: bits, Self.lookBits + 1...min(available, HuffmanCode.longest))
      {
        (next, length) = long
      }
      guard length > 0, length <= available else {
        let isPadding = available < 8 && bits == ~(UInt64.max >> UInt64(available))
        return isPadding ? reading.count : nil
      }
      guard next < HuffmanCode.endOfString else { return nil }
      unsafe target[reading.count] = UInt8(next)
      reading.count += 1
      reading.consume(length)
    }
    return reading.count
  }
}
