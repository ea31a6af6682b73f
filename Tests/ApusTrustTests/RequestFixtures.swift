// Certificate requests created by the openssl command line.

extension Fixtures {
  /// P-256, with a subject and extensions that request everything.
  static let request = """
    -----BEGIN CERTIFICATE REQUEST-----
    MIIBRDCB6wIBADBRMRYwFAYDVQQDDA1JIGFtIHRoZSByb290MRUwEwYDVQQKDAxB
    cHVzIERldmljZXMxIDAeBgoJkiaJk/IsZAEBDBAwMDAwMDAwMDAwMDAwMDAxMFkw
    EwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEbInAgiy2wEtdAZhSOyTFU1piWn522S4u
    9y3C+lbMU1UeXlynf3DyO4dDmng9s4qqnHbEyYKj8ziPYrRltXWnBaA4MDYGCSqG
    SIb3DQEJDjEpMCcwDwYDVR0TAQH/BAUwAwEB/zAUBgNVHREEDTALgglsb2NhbGhv
    c3QwCgYIKoZIzj0EAwIDSAAwRQIgIrxRF4XWU1Z+gGxETUgIdnf7NCTS4dn0KsMn
    u7sovdUCIQDUZDXlQqFfCAkQ3wl3NHbVT4YI7t79qxQ4ux1Ofe6gmw==
    -----END CERTIFICATE REQUEST-----
    """

  /// The same key, signed over SHA-384.
  static let requestSHA384 = """
    -----BEGIN CERTIFICATE REQUEST-----
    MIHGMG4CAQAwDDEKMAgGA1UEAwwBeDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IA
    BGyJwIIstsBLXQGYUjskxVNaYlp+dtkuLvctwvpWzFNVHl5cp39w8juHQ5p4PbOK
    qpx2xMmCo/M4j2K0ZbV1pwWgADAKBggqhkjOPQQDAwNIADBFAiEAgJvE0NxXZmSI
    wo4UY+i9m4TYfrZ+ncqOky77Ryv4q7gCIF177REGVG/1O3hJj6J+kofgPQgnHaZz
    ahYyQHvIKiJ6
    -----END CERTIFICATE REQUEST-----
    """

  static let requestP384 = """
    -----BEGIN CERTIFICATE REQUEST-----
    MIIBBDCBiwIBADAMMQowCAYDVQQDDAF4MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAE
    YMHCy5Hd9/4Q6cRmh4sz5zTkCjs7iU8Xk5xloFwZuspSsnOVv7HxyI947Z5ecxQu
    PiTBGgQ7xpPVEeN5fHj4Ix0z+eZKiubEZFlbWI6ehLIhN5dKCTSy/MBDxfXZ7hQT
    oAAwCgYIKoZIzj0EAwIDaAAwZQIwcbXvNfGNm0VKWifcdkqF9YUiPdVFmQDDpFUv
    wkh9AhBBw5qUxHkNhk21zSRo2SW7AjEAsJ/5AlrjCPtvVhXzUQ747s5udwV9+Leh
    j3SM8m/J3/RZFYDMfgJId6cK/rKMTUhi
    -----END CERTIFICATE REQUEST-----
    """

  /// RSA of 1024 bits.
  static let requestRSA1024 = """
    -----BEGIN CERTIFICATE REQUEST-----
    MIIBSzCBtQIBADAMMQowCAYDVQQDDAF4MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCB
    iQKBgQDtOutVHLB4b+k0YpzIzlm0npGa6RTKx28XKDzldKk56WFFo97e6LRaOHez
    AcdiJZGLQZlS2r9QuCXjkpTlQlv750OxCkVzZyQszT1Dehyhu8ncZD2h4TJCYO1T
    O70agUttEQMe96Bhz64yde4t3t54ramS8WFyS1HL36uNgUg+3wIDAQABoAAwDQYJ
    KoZIhvcNAQELBQADgYEAENpG1WwmPOkazM9r5IIDkT0vdSxrsB28/sWp9XXKasFK
    DAryFviCWGXutZknBjFlHH4OcOwU2zKfowS7tWerzclxkDJjNRJx0Zm+zC3ZwW2X
    /vsgiULKSfgjbsEHSopeyZ7474Z5R+HVcQpCaajgqf2Ujd2+vkAtiyP28lRHIKI=
    -----END CERTIFICATE REQUEST-----
    """

  /// P-256 with explicit curve parameters in place of its name.
  static let requestExplicitCurve = """
    -----BEGIN CERTIFICATE REQUEST-----
    MIIBuzCCAWICAQAwDDEKMAgGA1UEAwwBeDCCAUswggEDBgcqhkjOPQIBMIH3AgEB
    MCwGByqGSM49AQECIQD/////AAAAAQAAAAAAAAAAAAAAAP///////////////zBb
    BCD/////AAAAAQAAAAAAAAAAAAAAAP///////////////AQgWsY12Ko6k+ez671V
    dpiGvGUdBrDMU7D2O848PifSYEsDFQDEnTYIhucEk2pmeOETnSa3gZ9+kARBBGsX
    0fLhLEJH+Lzm5WOkQPJ3A32BLeszoPShOUXYmMKWT+NC4v4af5uO5+tKfA+eFivO
    M1drMV7Oy7ZAaDe/UfUCIQD/////AAAAAP//////////vOb6racXnoTzucrC/GMl
    UQIBAQNCAASoTQgzH2TUknHUXn8jin/kpwE4+Wk9jegw3xjMoMgXpNzGQ/+H3pFp
    9JptO+h01/iPrbpZCJWwzcW2rLLi6wdkoAAwCgYIKoZIzj0EAwIDRwAwRAIgIbOV
    BdJVchxCrZA7x16adIcHzv07tjQ7y8QaY/HPDCgCIH8XhsIJJvDaiehCblGIhEnf
    2ZtEK3tifQ4lOK06+SX6
    -----END CERTIFICATE REQUEST-----
    """

  /// P-256 with a compressed point.
  static let requestCompressedPoint = """
    -----BEGIN CERTIFICATE REQUEST-----
    MIGlME4CAQAwDDEKMAgGA1UEAwwBeDA5MBMGByqGSM49AgEGCCqGSM49AwEHAyIA
    A2yJwIIstsBLXQGYUjskxVNaYlp+dtkuLvctwvpWzFNVoAAwCgYIKoZIzj0EAwID
    RwAwRAIgbWJ05ok+4CBGpvA1mwmz3Tzq+403/XVfXP7EPGnroNQCIAmOIQp0Y2KK
    qn/wrgqU/1rI9+QLJ80tND+Anw1jGSdv
    -----END CERTIFICATE REQUEST-----
    """

  /// Ed25519.
  static let requestEd25519 = """
    -----BEGIN CERTIFICATE REQUEST-----
    MIGLMD8CAQAwDDEKMAgGA1UEAwwBeDAqMAUGAytlcAMhAEIjamqE6hb0LJFU29C0
    YRh3cpuxHzIwWgRxKL2OY42WoAAwBQYDK2VwA0EAnlKjP9Q5OD4YMzuO5nsBcG19
    J6K1acD3uV4DZXlAuQsQUX9BkAsxNpw5EhbeKVXXAwXgXDznubZ5LhnYB5UqDg==
    -----END CERTIFICATE REQUEST-----
    """

  /// SHA-256 of the public key of the first, by `openssl pkey -pubout -outform DER | sha256sum`.
  static let requestKeySHA256 = "3340780834ca1bbdb2c960f4fae9868d7960cab0dabc47513fee29416ae1a110"
}
