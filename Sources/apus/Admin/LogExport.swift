import ApusCommand
import ApusDirectory
import ApusModel

/// The output of `apus log --export`: what was broadcast on channels, for each day, as CSV.
///
/// The columns are those of "Exporting broadcast push notification metrics", with the topic, the environment and the
/// channel before them.
struct LogExport {
  let invocation: Invocation

  private static let header =
    "Date (UTC),Topic,Environment,Channel,Broadcasts Published,Broadcasts Delivered,"
    + "Total Subscriptions,Unique Subscribers\n"

  /// - Parameter topic: Nil for all topics.
  func print(_ log: LedgerLog, topic: TopicKey?) throws(CommandFailure) {
    let now = Process.nowSeconds * 1000
    func day(_ option: Option<Moment>) -> Int64? {
      invocation[option].map { $0.milliseconds(nowMilliseconds: now) / 86_400_000 }
    }
    let (first, last) = (day(LogOptions.since) ?? 0, day(LogOptions.until) ?? .max)
    do {
      let rows = try log.channelDays().filter { row in
        first <= row.day && row.day <= last && (topic.map { $0.app == row.app } ?? true)
      }
      Output.standard(Self.header)
      for row in rows { Output.standard(line(row, log.text(TopicKey(app: row.app)))) }
    } catch {
      throw CommandFailure(.configuration, "\(error)")
    }
  }

  private func line(_ row: LedgerLog.ChannelDay, _ topic: String) -> String {
    let (date, figures) = (CivilDate(daysSince1970: row.day), row.figures)
    let words = [
      "\(date.year)-\(padded(date.month))-\(padded(date.day))", topic, row.environment.name,
      row.channel ?? "", "\(figures.published)", "\(figures.delivered)",
      "\(figures.subscriptions)", row.channel == nil ? "\(figures.subscribers)" : "",
    ]
    return words.joined(separator: ",") + "\n"
  }

  private func padded(_ number: Int64) -> String { number < 10 ? "0\(number)" : "\(number)" }

  func refuseCombinations() throws(CommandFailure) {
    let given =
      invocation.isOn(LogOptions.follow) || invocation.isGiven(LogOptions.id)
      || invocation.isGiven(LogOptions.uniqueID) || invocation.isGiven(LogOptions.token)
      || invocation.isGiven(LogOptions.device) || invocation.isGiven(LogOptions.state)
      || invocation.isGiven(LogOptions.limit) || invocation.isOn(LogOptions.counts)
      || invocation.isOn(LogOptions.refused) || invocation.isOn(ApusOptions.json)
    if given {
      throw CommandFailure(
        .usage, "--export writes what was broadcast on channels, day by day",
        remedy: "Combine it only with --topic, --since and --until.")
    }
  }
}
