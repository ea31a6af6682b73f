/// A number with its noun, for messages: `1 device`, `2 devices`.
///
/// - Parameter noun: The singular of a noun whose plural ends in -s.
package func counted(_ count: some BinaryInteger, _ noun: String) -> String {
  count == 1 ? "1 \(noun)" : "\(count) \(noun)s"
}
