/// The name of the network that the machine is in: its router, by address and hardware address.
enum NetworkName {
  /// - Parameters:
  ///   - routes: The text of /proc/net/route.
  ///   - neighbours: The text of /proc/net/arp.
  ///
  /// - Returns: Without blanks; `none` without a default route.
  static func name(routes: String, neighbours: String) -> String {
    var best: (metric: Int, interface: Substring, gateway: String)?
    for line in routes.split(separator: "\n").dropFirst() {
      let fields = line.split { $0 == " " || $0 == "\t" }
      // Interface, destination, gateway, flags, and so on; destination and mask of zero are the default route.
      guard fields.count >= 8, fields[1] == "00000000", fields[7] == "00000000",
        let metric = Int(fields[6]), metric < best?.metric ?? .max,
        let gateway = address(fields[2])
      else { continue }
      best = (metric, fields[0], gateway)
    }
    guard let best else { return "none" }
    for line in neighbours.split(separator: "\n").dropFirst() {
      let fields = line.split { $0 == " " || $0 == "\t" }
      if fields.count >= 6, fields[0] == best.gateway[...], fields[5] == best.interface {
        return "\(best.gateway)-\(fields[3])"
      }
    }
    return "\(best.gateway)-\(best.interface)"
  }

  /// The kernel writes an address as a number of the machine's byte order, which is little-endian.
  private static func address(_ hex: Substring) -> String? {
    guard hex.utf8.count == 8, let number = UInt32(hex, radix: 16) else { return nil }
    return (0..<4).map { String(number >> (8 * UInt32($0)) & 0xff) }.joined(separator: ".")
  }
}
