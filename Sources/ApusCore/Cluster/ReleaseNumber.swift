/// The part of a program's version that says which nodes of a cluster work together: 0.2 of "0.2.1".
package struct ReleaseNumber: Sendable {
  private let major: Int
  private let minor: Int

  /// Nil for what is no version.
  package init?(_ version: String) {
    let numbers = version.split(separator: ".", omittingEmptySubsequences: false).prefix(2)
      .compactMap { Int($0) }
    guard numbers.count == 2, numbers.allSatisfy({ $0 >= 0 }) else { return nil }
    (major, minor) = (numbers[0], numbers[1])
  }

  /// Whether nodes of both may run at the same time: of the same release, or of one and the next.
  ///
  /// The first release with a new major number is taken for the next one of all before it: what was the last of these
  /// is not known here.
  package func runsBeside(_ other: ReleaseNumber) -> Bool {
    let (earlier, later) =
      (major, minor) < (other.major, other.minor) ? (self, other) : (other, self)
    return earlier.major == later.major
      ? later.minor - earlier.minor <= 1 : later.major - earlier.major == 1 && later.minor == 0
  }
}
