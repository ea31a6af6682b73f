/// A date of the proleptic Gregorian calendar.
///
/// Counted in eras of 400 years that begin on 1 March, so that a leap day is the last of its year.
package struct CivilDate: Sendable, Hashable {
  package var year: Int64
  /// From 1 to 12.
  package var month: Int64
  /// From 1; whether the month has so many days is not checked.
  package var day: Int64

  package init(year: Int64, month: Int64, day: Int64) {
    self.year = year
    self.month = month
    self.day = day
  }

  /// The days from 1 March 0000 to 1 January 1970.
  private static let epoch: Int64 = 719_468
  private static let daysPerEra: Int64 = 146_097

  package init(daysSince1970: Int64) {
    let days = daysSince1970 + Self.epoch
    let era = Self.floor(days, by: Self.daysPerEra)
    let dayOfEra = days - era * Self.daysPerEra
    let yearOfEra =
      (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let monthFromMarch = (5 * dayOfYear + 2) / 153
    day = dayOfYear - (153 * monthFromMarch + 2) / 5 + 1
    month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
    year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
  }

  package var daysSince1970: Int64 {
    let marchYear = month <= 2 ? year - 1 : year
    let era = Self.floor(marchYear, by: 400)
    let yearOfEra = marchYear - era * 400
    let monthFromMarch = month > 2 ? month - 3 : month + 9
    let dayOfYear = (153 * monthFromMarch + 2) / 5 + day - 1
    let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
    return era * Self.daysPerEra + dayOfEra - Self.epoch
  }

  private static func floor(_ value: Int64, by divisor: Int64) -> Int64 {
    (value >= 0 ? value : value - divisor + 1) / divisor
  }
}
