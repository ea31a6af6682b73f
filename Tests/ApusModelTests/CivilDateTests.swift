import ApusModel
import Testing

@Suite("Dates of the calendar")
struct CivilDateTests {
  @Test(
    "Days and dates convert in both directions",
    arguments: [
      (0, 1970, 1, 1), (-1, 1969, 12, 31), (59, 1970, 3, 1), (11_016, 2000, 2, 29),
      (11_017, 2000, 3, 1), (47_540, 2100, 2, 28), (47_541, 2100, 3, 1), (20_784, 2026, 11, 27),
      (-719_468, 0, 3, 1), (-719_469, 0, 2, 29), (2_932_896, 9999, 12, 31),
    ])
  func conversions(days: Int64, year: Int64, month: Int64, day: Int64) {
    let date = CivilDate(year: year, month: month, day: day)
    #expect(date.daysSince1970 == days)
    #expect(CivilDate(daysSince1970: days) == date)
  }

  @Test("Consecutive days are consecutive dates, over two eras of 400 years")
  func consecutive() {
    for days: Int64 in -292_194...292_194 {
      let date = CivilDate(daysSince1970: days)
      guard date.daysSince1970 == days, 1...12 ~= date.month, 1...31 ~= date.day else {
        Issue.record("\(days): \(date)")
        return
      }
    }
  }

  @Test("A day that its month lacks is another date")
  func missing() {
    let date = CivilDate(year: 2025, month: 2, day: 29)
    #expect(
      CivilDate(daysSince1970: date.daysSince1970) == CivilDate(year: 2025, month: 3, day: 1))
  }
}
