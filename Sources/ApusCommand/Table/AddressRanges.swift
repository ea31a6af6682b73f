extension ValueSyntax where Value == [String] {
  /// Numeric addresses separated by commas, each with an optional number of leading bits that count, such as
  /// `192.0.2.0/24`. The values have no brackets; the system makes the final check.
  static var addressRanges: ValueSyntax {
    ValueSyntax("ADDRESS[/BITS],...") { text throws(ValueProblem) in
      let ranges = text.split(separator: ",", omittingEmptySubsequences: false).map(range)
      guard ranges.allSatisfy({ $0 != nil }) else {
        throw ValueProblem(
          "is not a list of numeric addresses such as 10.0.0.7,192.0.2.0/24,2001:db8::/32")
      }
      return ranges.compactMap(\.self)
    }
  }

  private static func range(_ text: Substring) -> String? {
    let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
    guard let host = ListenAddress.Endpoint.bareHost(String(parts[0])) else { return nil }
    guard parts.count == 2 else { return host }
    guard let bits = UInt8(parts[1]), parts[1].first != "+", bits <= (host.contains(":") ? 128 : 32)
    else { return nil }
    return "\(host)/\(bits)"
  }
}
