package import ApusModel

// One row per token and list, with the latest time. The writer reads first (`feedbackTime`) and passes on what it
// found, because a group contains no conditions. If the read misses a pending write, a token has at worst two times,
// of which the row by token names one. Both rows are sent, the older one first, and each is removed once its reader
// received it: nothing is lost, and clients compare the time with that of the token's last registration.

extension DurableStore {
  /// The token's time in the list in Unix milliseconds; nil if it is not in the list.
  package func feedbackTime(
    of token: DeviceToken, in list: FeedbackTopic
  ) throws(StoreError) -> Int64? {
    let key = FeedbackRecord.tokenKey(token, in: list)
    guard let value = try get(.feedback, key: key.span) else { return nil }
    do {
      return try FeedbackRecord.decode(tokenValue: value.span)
    } catch {
      throw .corrupted(path: "feedback", detail: "\(error), for the token \(token.redacted)")
    }
  }

  /// Appends up to `limit` rows of the list to `rows`: the oldest after `after`, which need not exist any more, or the
  /// oldest of all. Rows of the same millisecond are in the order of their tokens.
  ///
  /// A damaged row ends the reading with `.corrupted`; rows before it were appended.
  package func feedbackRows(
    of list: FeedbackTopic, after: FeedbackRow?, limit: Int, into rows: inout [FeedbackRow]
  ) throws(StoreError) {
    guard limit > 0 else { return }
    let prefix = FeedbackRecord.timePrefix(list)
    let begin = rows.count
    // A limit of `.max` means all.
    let end = begin.addingReportingOverflow(limit).overflow ? .max : begin + limit
    var fault: RecordError?
    func visit(_ key: Span<UInt8>, _ value: Span<UInt8>) -> Bool {
      do {
        let row = try FeedbackRecord.decode(timeKey: key, value: value).row
        if row != after { rows.append(row) }
        return rows.count < end
      } catch {
        fault = error
        return false
      }
    }
    if let after {
      let start = FeedbackRecord.timeKey(after, in: list)
      try scan(.feedback, prefix: prefix.span, from: start.span, visit)
    } else {
      try scan(.feedback, prefix: prefix.span, visit)
    }
    if let fault {
      let last = rows.count > begin ? rows.last : after
      let place = last.map { "after the token \($0.token.redacted)" } ?? "at the beginning"
      throw .corrupted(
        path: "feedback",
        detail: "\(fault), \(place) of the \(list.environment.name) list of app "
          + "\(list.topic.app.rawValue)")
    }
  }
}

extension WriteGroup {
  /// Adds the token to the list with that time, replacing `previous`: its time so far, from `feedbackTime`.
  ///
  /// The latest time is kept: if `previous` is not earlier, nothing is written.
  package mutating func putFeedback(
    _ row: FeedbackRow, in list: FeedbackTopic, replacing previous: Int64?
  ) {
    if let previous {
      guard previous < row.milliseconds else { return }
      let old = FeedbackRow(milliseconds: previous, token: row.token)
      let key = FeedbackRecord.timeKey(old, in: list)
      delete(.feedback, key: key.span)
    }
    let timeKey = FeedbackRecord.timeKey(row, in: list)
    let timeValue = FeedbackRecord.timeValue
    put(.feedback, key: timeKey.span, value: timeValue.span)
    let tokenKey = FeedbackRecord.tokenKey(row.token, in: list)
    let tokenValue = FeedbackRecord.tokenValue(milliseconds: row.milliseconds)
    put(.feedback, key: tokenKey.span, value: tokenValue.span)
  }

  /// Removes a row that a reader has received.
  ///
  /// - Parameter isCurrent: Whether `feedbackTime` still returns this row's time. If not, the row by token belongs to
  ///   a newer row, and both stay for the next reader.
  package mutating func removeFeedback(
    _ row: FeedbackRow, of list: FeedbackTopic, isCurrent: Bool
  ) {
    let timeKey = FeedbackRecord.timeKey(row, in: list)
    delete(.feedback, key: timeKey.span)
    guard isCurrent else { return }
    let tokenKey = FeedbackRecord.tokenKey(row.token, in: list)
    delete(.feedback, key: tokenKey.span)
  }
}
