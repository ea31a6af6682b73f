import ApusCore
import Testing

@Suite("When a spool's writes are due")
struct SpoolScheduleTests {
  @Test("Acceptances at once, endings after 20 ms, lines alone after a second")
  func due() {
    for (kind, milliseconds) in [
      (SpoolSchedule.Kind.acceptances, UInt64(0)), (.endings, 20), (.lines, 1000),
    ] {
      var schedule = SpoolSchedule()
      schedule.note(kind, nowMilliseconds: 5)
      #expect(schedule.nextMilliseconds == 5 + milliseconds)
      if milliseconds > 0 {
        let early = schedule.begin(nowMilliseconds: 4 + milliseconds)
        #expect(!early)
      }
      let begins = schedule.begin(nowMilliseconds: 5 + milliseconds)
      #expect(begins)
    }
  }

  @Test("The earliest counts, and what is noted again does not wait longer")
  func earliest() {
    var schedule = SpoolSchedule()
    schedule.note(.lines, nowMilliseconds: 0)
    schedule.note(.endings, nowMilliseconds: 10)
    schedule.note(.endings, nowMilliseconds: 20)
    #expect(schedule.nextMilliseconds == 30)
  }

  @Test("One group at a time: what comes meanwhile goes with the next")
  func one() {
    var schedule = SpoolSchedule()
    let nothing = schedule.begin(nowMilliseconds: 0)
    #expect(!nothing)
    schedule.note(.acceptances, nowMilliseconds: 0)
    let first = schedule.begin(nowMilliseconds: 0)
    #expect(first && !schedule.isIdle && schedule.nextMilliseconds == nil)
    schedule.note(.acceptances, nowMilliseconds: 1)
    let second = schedule.begin(nowMilliseconds: 1)
    #expect(!second && schedule.nextMilliseconds == nil)
    schedule.finished()
    let third = schedule.begin(nowMilliseconds: 2)
    #expect(third)
    schedule.finished()
    #expect(schedule.isIdle)
  }

  @Test("At the end nothing waits")
  func last() {
    var schedule = SpoolSchedule()
    let nothing = schedule.begin(nowMilliseconds: 0, isLast: true)
    schedule.note(.lines, nowMilliseconds: 0)
    let last = schedule.begin(nowMilliseconds: 0, isLast: true)
    #expect(!nothing && last)
  }
}
