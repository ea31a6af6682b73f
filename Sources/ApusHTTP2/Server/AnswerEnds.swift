/// Where responses end in a session's output.
struct AnswerEnds {
  private struct Answer {
    var streamID: Int32
    /// The value of `FrameOutput.takenBytes` once its end is taken.
    var end: UInt64
  }

  /// In the order of the output. Those before `index` were taken.
  private var answers: [Answer] = []
  private var index = 0

  /// The end of a response was appended.
  mutating func note(_ streamID: Int32, end: UInt64) {
    answers.append(Answer(streamID: streamID, end: end))
  }

  /// The next response whose end was taken.
  mutating func next(takenBytes: UInt64) -> Int32? {
    guard index < answers.count, answers[index].end <= takenBytes else {
      if 2 * index > answers.count { forgetTaken() }
      return nil
    }
    index += 1
    return answers[index - 1].streamID
  }

  private mutating func forgetTaken() {
    if index == answers.count {
      answers.removeAll(keepingCapacity: true)
    } else {
      answers.removeFirst(index)
    }
    index = 0
  }
}
