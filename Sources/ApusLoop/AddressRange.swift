/// The addresses that begin with the same bits, such as `192.0.2.0/24`; or a single one.
package struct AddressRange: Hashable, Sendable {
  private let first: SocketAddress
  private let prefixBitCount: Int

  /// Reads `192.0.2.7`, `192.0.2.0/24`, `2001:db8::1` or `2001:db8::/32`; nil for anything else. Bits behind the prefix
  /// are ignored.
  package init?(_ text: String) {
    let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
    let host = parts[0].contains(":") ? "[\(parts[0])]" : String(parts[0])
    guard host != "*", let address = try? SocketAddress("\(host):0") else { return nil }
    let bitCount = address.family == .ipv4 ? 32 : 128
    guard parts.count == 2 else {
      (first, prefixBitCount) = (address, bitCount)
      return
    }
    guard parts[1].utf8.allSatisfy({ UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 }),
      let prefix = Int(parts[1]), prefix <= bitCount
    else { return nil }
    (first, prefixBitCount) = (address, prefix)
  }

  package func contains(_ address: SocketAddress) -> Bool {
    first.shares(firstBits: prefixBitCount, with: address)
  }
}
