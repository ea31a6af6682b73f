import ApusCore
import ApusModel
import Testing

@Suite("Reports of a counter")
struct CountReportTests {
  @Test("The first growth is reported at once, the next one after a pause, and nothing twice")
  func reports() {
    let pause = UInt64(Limits.reportSeconds)
    var report = CountReport()
    #expect(report.take(0, nowSeconds: 0) == nil)
    #expect(report.take(3, nowSeconds: 1) == 3)
    #expect(report.take(4, nowSeconds: 2) == nil)
    #expect(report.take(9, nowSeconds: pause) == nil)
    #expect(report.take(10, nowSeconds: 1 + pause) == 7)
    #expect(report.take(10, nowSeconds: 100 + pause) == nil)
    #expect(report.take(11, nowSeconds: 101 + pause) == 1)
  }
}
