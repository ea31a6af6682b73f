import ApusCore
import ApusModel
import ApusRandom
import Testing

@Suite("Bad tokens, or a wrong configuration")
struct ConfigurationAlarmTests {
  /// What happens to a run of answers: `b` is a bad token and `g` a good one; `r`, `h` and `!` stand for a bad token
  /// that is reported, held, or raises the alarm; `g` for a good one, `G` for one that ends the alarm.
  private func run(_ answers: String, _ alarm: inout ConfigurationAlarm) -> String {
    String(
      answers.map { answer in
        guard answer == "b" else { return alarm.noteGood() ? "G" : "g" }
        switch alarm.noteBad() {
        case .report: return "r"
        case .hold: return "h"
        case .raise: return "!"
        }
      })
  }

  private func run(_ answers: String) -> String {
    var alarm = ConfigurationAlarm()
    return run(answers, &alarm)
  }

  private func times(_ text: String, _ count: Int) -> String {
    String(repeating: text, count: count)
  }

  @Test("A test bench with one bad token, or three, gets its answers")
  func bench() {
    #expect(run("b") == "r")
    #expect(run("bbb") == "rrr")
    #expect(run("gbbbb") == "grrrr")
  }

  @Test("If the first tokens are all bad, the fourth is held and raises the alarm, once")
  func wrongFromTheBeginning() {
    var alarm = ConfigurationAlarm()
    #expect(run(times("b", 200), &alarm) == "rrr!" + times("h", 196))
    #expect(alarm.isRaised)
  }

  @Test("Fifty bad tokens among ten thousand are all reported, also ten at a time")
  func oldDatabase() {
    let scattered = times(times("g", 199) + "b", 50)
    #expect(run(scattered) == times(times("g", 199) + "r", 50))
    let clustered = times(times("g", 1990) + times("b", 10), 5)
    #expect(run(clustered) == times(times("g", 1990) + times("r", 10), 5))
  }

  @Test("Fifty at once are held after the twentieth, until as many good ones came")
  func cluster() {
    let found = run(times("g", 100) + times("b", 50) + times("g", 25))
    #expect(
      found == times("g", 100) + times("r", 20) + "!" + times("h", 29) + times("g", 19) + "G"
        + times("g", 5))
  }

  @Test("A wrong certificate later costs twenty tokens, however many were good before")
  func wrongLater() {
    var alarm = ConfigurationAlarm()
    _ = run(times("g", 100_000), &alarm)
    #expect(run(times("b", 1000), &alarm) == times("r", 20) + "!" + times("h", 979))
  }

  @Test("A few good tokens do not end the alarm while most are bad")
  func mostlyBad() {
    var alarm = ConfigurationAlarm()
    _ = run("bbbb", &alarm)
    #expect(run(times("bbg", 1000), &alarm) == times("hhg", 1000))
  }

  @Test("After the operator's confirmation a thousand answers pass, then the margin is whole again")
  func confirmed() {
    var alarm = ConfigurationAlarm()
    _ = run("bbbbb", &alarm)
    let wasRaised = alarm.confirm()
    #expect(wasRaised && !alarm.isRaised)
    #expect(run(times("b", 998) + "gb", &alarm) == times("r", 998) + "gr")
    #expect(run(times("b", 22), &alarm) == times("r", 20) + "!h")
  }

  @Test("A confirmation without an alarm changes nothing")
  func confirmedForNothing() {
    var alarm = ConfigurationAlarm()
    let wasRaised = alarm.confirm()
    #expect(!wasRaised)
    #expect(run("bbbb", &alarm) == "rrr!")
  }

  @Test("After a change of the configuration the tokens prove themselves again")
  func changed() {
    var alarm = ConfigurationAlarm()
    _ = run(times("g", 100), &alarm)
    var wasRaised = alarm.configurationChanged()
    #expect(!wasRaised)
    #expect(run("bbbbb", &alarm) == "rrr!h")
    wasRaised = alarm.configurationChanged()
    #expect(wasRaised)
    #expect(run("bbbbb", &alarm) == "rrr!h")
    _ = alarm.confirm()
    _ = alarm.configurationChanged()
    #expect(run("bbbb", &alarm) == "rrr!")
  }

  @Test("An alarm that was raised when the service ended is raised after its start")
  func restored() {
    var alarm = ConfigurationAlarm(isRaised: true)
    #expect(run("b" + times("g", 21), &alarm) == "h" + times("g", 19) + "Gg")
  }

  @Test("It takes a few words")
  func small() {
    #expect(MemoryLayout<ConfigurationAlarm>.size <= 24)
  }

  @Test(
    "Random answers: reported bad tokens never exceed good ones by more than the margin",
    arguments: 0..<60 as Range<UInt64>)
  func walk(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    var alarm = ConfigurationAlarm()
    // Reported less good since the moment at which that was least, which is the largest excess since any moment.
    var excess = Limits.badTokensMargin - Limits.badTokensUnproven
    var isRaised = false
    var badPercent = 0
    for step in 0..<5000 {
      if step % 200 == 0 { badPercent = random.pick([0, 5, 30, 60, 95, 100]) }
      if random.below(100) < badPercent {
        let order = alarm.noteBad()
        #expect((order == .report) == !alarm.isRaised, "seed \(seed), step \(step)")
        #expect((order == .raise) == (alarm.isRaised && !isRaised), "seed \(seed), step \(step)")
        if order == .report { excess += 1 }
      } else {
        let isOver = alarm.noteGood()
        #expect(isOver == (isRaised && !alarm.isRaised), "seed \(seed), step \(step)")
        excess = max(0, excess - 1)
      }
      isRaised = alarm.isRaised
      #expect(excess <= Limits.badTokensMargin, "seed \(seed), step \(step)")
    }
  }

  @Test(
    "A tenth of bad tokens at random never raises the alarm", arguments: 0..<20 as Range<UInt64>)
  func healthy(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    var alarm = ConfigurationAlarm()
    for _ in 0..<10 { _ = alarm.noteGood() }
    for _ in 0..<10_000 {
      guard random.chance(1, in: 10) else {
        _ = alarm.noteGood()
        continue
      }
      let order = alarm.noteBad()
      #expect(order == .report, "seed \(seed)")
    }
  }

  @Test(
    "Three fifths of bad tokens raise it within 500 answers", arguments: 0..<20 as Range<UInt64>)
  func majority(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    var alarm = ConfigurationAlarm()
    for _ in 0..<1000 { _ = alarm.noteGood() }
    var raises = 0
    for _ in 0..<500 {
      if random.chance(3, in: 5) {
        let order = alarm.noteBad()
        if order == .raise { raises += 1 }
      } else {
        _ = alarm.noteGood()
      }
    }
    #expect(raises > 0, "seed \(seed)")
  }
}
