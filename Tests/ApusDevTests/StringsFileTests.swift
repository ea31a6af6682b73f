import Testing

@testable import ApusDev

@Suite("The texts of an app")
struct StringsFileTests {
  @Test("Texts, comments, escapes and bare words are read")
  func reading() throws {
    let text = #"""
      /* Shown when a game starts. */
      "GAME_START" = "%@ plays \"%2$@\"\n";
      // Nobody needs this.
      TITLE = "Gr\U00fc\U00dfe \UD83D\UDE00"; SAME;
      "semi;colon" = "a;b /* no comment */";
      """#
    let table = try StringsFile.read(Array(text.utf8))
    #expect(
      table.strings == [
        "GAME_START": "%@ plays \"%2$@\"\n", "TITLE": "Grüße 😀", "SAME": "SAME",
        "semi;colon": "a;b /* no comment */",
      ])
  }

  @Test("UTF-16 of either byte order and UTF-8 with a byte order mark are read")
  func encodings() throws {
    let text = "\"A\" = \"ü😀\";"
    var (little, big): ([UInt8], [UInt8]) = ([0xff, 0xfe], [0xfe, 0xff])
    for unit in text.utf16 {
      little += [UInt8(unit & 0xff), UInt8(unit >> 8)]
      big += [UInt8(unit >> 8), UInt8(unit & 0xff)]
    }
    for bytes in [little, big, [0xef, 0xbb, 0xbf] + Array(text.utf8)] {
      #expect(try StringsFile.read(bytes).strings == ["A": "ü😀"])
    }
  }

  @Test(
    "Faults have line and column",
    arguments: [
      ("\"A\" = \"b\"\n\"C\" = \"d\";", 2, 1),
      ("\"A\" \"b\";", 1, 5),
      ("\"A\" = ;", 1, 7),
      ("\n  \"A = b;", 2, 3),
      ("\"ü\" = \"\\U00g0\";", 1, 12),
      ("/* a", 1, 1),
    ])
  func faults(text: String, line: Int, column: Int) throws {
    do throws(InputFault) {
      _ = try StringsFile.read(Array(text.utf8))
      Issue.record("it was accepted")
    } catch {
      let position = error.position(in: Array(text.utf8))
      #expect(position?.line == line && position?.column == column, "\(error)")
    }
  }

  @Test("A language falls back to its base language, then to the default")
  func languages() throws {
    let book = DeviceBook()
    for (language, text) in [("en", "Hello"), ("de", "Hallo"), ("de-AT", "Servus")] {
      let table = try StringsFile.read(Array("A = \"\(text)\";".utf8))
      book.setStrings(table, topic: "com.example.app", language: language)
    }
    for (language, text) in [
      ("de-AT", "Servus"), ("de-CH", "Hallo"), ("de", "Hallo"), ("fr", "Hello"), ("en", "Hello"),
    ] {
      #expect(book.strings(of: "com.example.app", language)["A"] == text, "\(language)")
      #expect(book.strings(of: "com.example.app.voip", language)["A"] == text, "\(language)")
    }
    #expect(book.strings(of: "com.example.other", "en").isEmpty)
  }
}
