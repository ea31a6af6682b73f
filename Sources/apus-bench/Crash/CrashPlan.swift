/// When to kill the service in one of its lives.
enum CrashPlan: Sendable {
  /// The given time after its start, usually before its listeners are open.
  case starting(milliseconds: UInt64)
  /// The given time after its listeners opened, under a light load.
  case serving(milliseconds: UInt64)
  /// The given time after a flood of `count` notifications began.
  case flooded(count: Int, milliseconds: UInt64)
  /// Right after `count` notifications were accepted.
  case answered(count: Int)

  init(using random: inout some RandomNumberGenerator) {
    switch Int.random(in: 0..<10, using: &random) {
    case 0: self = .starting(milliseconds: .random(in: 0...60, using: &random))
    case 1...3: self = .serving(milliseconds: .random(in: 0...500, using: &random))
    case 4...6:
      self = .flooded(
        count: .random(in: 500...4000, using: &random),
        milliseconds: .random(in: 0...150, using: &random))
    default: self = .answered(count: .random(in: 1...600, using: &random))
    }
  }

  /// The name in the summary.
  var name: String {
    switch self {
    case .starting: "starting"
    case .serving: "serving"
    case .flooded: "flooded"
    case .answered: "answered"
    }
  }
}
