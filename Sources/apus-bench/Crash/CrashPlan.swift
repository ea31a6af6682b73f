/// When the service is killed in one of its lives.
enum CrashPlan: Sendable {
  /// So many milliseconds after it was started, most likely before its doors are open.
  case starting(milliseconds: UInt64)
  /// So many milliseconds after its doors opened, under a light load.
  case serving(milliseconds: UInt64)
  /// So many milliseconds after a flood of this many notifications began.
  case flooded(count: Int, milliseconds: UInt64)
  /// Right after so many notifications were accepted.
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

  /// For the table of what was done.
  var name: String {
    switch self {
    case .starting: "starting"
    case .serving: "serving"
    case .flooded: "flooded"
    case .answered: "answered"
    }
  }
}
