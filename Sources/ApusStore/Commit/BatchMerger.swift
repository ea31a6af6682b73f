import ApusModel

/// Makes one group of those of a batch, in memory that is used again.
struct BatchMerger {
  private var merged: [UInt8] = []

  /// A larger buffer is not kept between batches.
  private static let bytesKept = 8 * 1024 * 1024

  /// The bytes of `submissions`, of which there is at least one. A single one is taken as it is.
  mutating func bytes(of submissions: [Submission]) -> [UInt8] {
    guard submissions.count > 1 else { return submissions[0].bytes }
    merged.removeAll(keepingCapacity: merged.capacity <= Self.bytesKept)
    for submission in submissions {
      let bytes = submission.bytes.span
      merged.append(merged.isEmpty ? bytes : bytes.extracting(WriteRecord.headerByteCount...))
    }
    WriteRecord.setCount(submissions.reduce(0) { $0 + $1.count }, in: &merged)
    return merged
  }
}
