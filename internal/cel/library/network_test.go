package library_test

import "testing"

func TestIP(t *testing.T) {
	t.Parallel()
	run(t, []example{
		{"ip('192.168.0.1')", "ip('192.168.0.1')", 2, 2, 2},
		{"ip('2001:db8:3333:4444:5555:6666:7777:8888')", "ip('2001:DB8:3333:4444:5555:6666:7777:8888')", 4, 4, 4},
		{"ip('192.168.0.1.0')", `error: IP Address "192.168.0.1.0" parse error during conversion from string: ParseAddr("192.168.0.1.0"): IPv4 address too long`, 0, 0, 0},
		{"ip('2001:db8:::68')", `error: IP Address "2001:db8:::68" parse error during conversion from string: ParseAddr("2001:db8:::68"): each colon-separated field must have at least one digit (at ":68")`, 0, 0, 0},
		{"ip('127.0.0.01')", `error: IP Address "127.0.0.01" parse error during conversion from string: ParseAddr("127.0.0.01"): IPv4 field has octet with leading zero`, 0, 0, 0},
		{"ip('fe80::1%eth0')", `error: IP address "fe80::1%eth0" with zone value is not allowed`, 0, 0, 0},
		{"ip('::ffff:1.2.3.4')", `error: IPv4-mapped IPv6 address "::ffff:1.2.3.4" is not allowed`, 0, 0, 0},

		{"isIP('192.168.0.1')", "true", 2, 2, 2},
		{"isIP('::1')", "true", 1, 1, 1},
		{"isIP('127.0.0.256')", "false", 2, 2, 2},
		{"isIP('::ffff:1.2.3.4')", "false", 2, 2, 2},
		{"isIP('')", "false", 0, 0, 0},

		{"ip.isCanonical('192.168.0.1')", "true", 3, 3, 3},
		{"ip.isCanonical('2001:db8:3333:4444:5555:6666:7777:8888')", "true", 8, 8, 8},
		{"ip.isCanonical('2001:db8::abcd')", "true", 3, 3, 3},
		{"ip.isCanonical('2001:DB8::ABCD')", "false", 3, 3, 3},
		{"ip.isCanonical('2001:db8::0:0:0:abcd')", "false", 4, 4, 4},
		{"ip.isCanonical('127.0.0.1.0')", `error: IP Address "127.0.0.1.0" parse error during conversion from string: ParseAddr("127.0.0.1.0"): IPv4 address too long`, 0, 0, 0},

		{"ip('127.0.0.1').family()", "4", 2, 2, 2},
		{"ip('::1').family()", "6", 2, 2, 2},
		{"ip('0.0.0.0').isUnspecified()", "true", 2, 2, 2},
		{"ip('::1').isUnspecified()", "false", 2, 2, 2},
		{"ip('127.1.2.3').isLoopback()", "true", 2, 2, 2},
		{"ip('2001:db8::abcd').isLoopback()", "false", 3, 3, 3},
		{"ip('224.0.0.1').isLinkLocalMulticast()", "true", 2, 2, 2},
		{"ip('224.0.1.1').isLinkLocalMulticast()", "false", 2, 2, 2},
		{"ip('169.254.169.254').isLinkLocalUnicast()", "true", 3, 3, 3},
		{"ip('fd80::1').isLinkLocalUnicast()", "false", 2, 2, 2},
		{"ip('192.168.0.1').isGlobalUnicast()", "true", 3, 3, 3},
		{"ip('255.255.255.255').isGlobalUnicast()", "false", 3, 3, 3},

		{"ip('192.168.0.1') == ip('192.168.0.1')", "true", 5, 5, 5},
		{"ip('::1') == ip('::2')", "false", 3, 3, 3},
		{"ip('::1') != ip('0:0::1')", "false", 0, 0, 0},
		{"string(ip('2001:DB8::68'))", "'2001:db8::68'", 0, 0, 0},
		{"type(ip('192.168.0.1')) == net.IP", "true", 0, 0, 0},
	})
	runCompileErrors(t, compileErrors{
		"isIP(cidr('192.168.0.0/24'))": "found no matching overload for 'isIP' applied to '(net.CIDR)'",
		"ip(1)":                        "found no matching overload for 'ip' applied to '(int)'",
		"'::1'.family()":               "found no matching overload for 'family' applied to 'string.()'",
		"ip('::1') == '::1'":           "found no matching overload for '_==_' applied to '(net.IP, string)'",
	})
}

func TestCIDR(t *testing.T) {
	t.Parallel()
	run(t, []example{
		{"cidr('192.168.0.0/16')", "cidr('192.168.0.0/16')", 2, 2, 2},
		{"cidr('2001:db8::/32')", "cidr('2001:DB8::/32')", 2, 2, 2},
		{"cidr(dyn('192.168.0.0/24'))", "cidr('192.168.0.0/24')", 0, 0, 0},
		{"cidr('192.168.0.0/')", `error: network address parse error during conversion from string: network address parse error during conversion from string: netip.ParsePrefix("192.168.0.0/"): bad bits after slash: ""`, 0, 0, 0},
		{"cidr('::ffff:1.2.3.4/120')", `error: network address parse error during conversion from string: IPv4-mapped IPv6 address "::ffff:1.2.3.4/120" is not allowed`, 0, 0, 0},
		{"isCIDR('192.168.0.0/16')", "true", 2, 2, 2},
		{"isCIDR('192.168.0.1/16')", "true", 2, 2, 2},
		{"isCIDR('192.168.0.0/33')", "false", 2, 2, 2},
		{"isCIDR('192.168.0.0')", "false", 2, 2, 2},

		{"cidr('192.168.0.0/16').ip()", "ip('192.168.0.0')", 3, 3, 3},
		{"cidr('2001:db8::/32').ip().family()", "6", 4, 4, 4},
		{"cidr('192.168.0.0/16').prefixLength()", "16", 3, 3, 3},
		{"cidr('192.168.0.1/24').masked()", "cidr('192.168.0.0/24')", 3, 3, 3},
		{"cidr('192.168.0.1/24') == cidr('192.168.0.1/24').masked()", "false", 6, 6, 6},
		{"cidr('192.168.0.0/16') == cidr('2001:db8::/32')", "false", 5, 5, 5},
		{"type(cidr('192.168.0.0/24').ip()) == net.IP", "true", 0, 0, 0},
		{"cidr('192.168.0.0/24').ip() == ip('192.168.0.0')", "true", 6, 6, 6},
		{"string(cidr('192.168.0.0/24'))", "'192.168.0.0/24'", 0, 0, 0},
		{"type(cidr('192.168.0.0/24')) == net.CIDR", "true", 0, 0, 0},

		{"cidr('192.168.0.0/16').containsCIDR(cidr('192.0.0.0/30'))", "false", 7, 11, 7},
		{"cidr('192.168.0.0/16').containsCIDR(cidr('192.168.0.0/16'))", "true", 7, 11, 7},
		{"cidr('192.168.0.0/16').containsCIDR('192.0.0.0/30')", "false", 7, 11, 7},
		{"cidr('192.168.0.0/16').containsCIDR('192.168.10.0/24')", "true", 7, 11, 7},
		{"cidr('192.168.0.0/24').containsCIDR('192.168.0.0/23')", "false", 7, 11, 7},
		{"cidr('192.168.0.0/16').containsCIDR('::/0')", "false", 6, 10, 6},
		{"cidr('192.168.0.0/16').containsCIDR('x')", `error: network address parse error during conversion from string: network address parse error during conversion from string: netip.ParsePrefix("x"): no '/'`, 0, 0, 0},
		{"cidr('192.168.0.0/16').containsIP(ip('192.0.0.1'))", "false", 4, 7, 4},
		{"cidr('192.168.0.0/16').containsIP(ip('192.168.0.1'))", "true", 5, 8, 5},
		{"cidr('192.168.0.0/16').containsIP('192.0.0.1')", "false", 4, 7, 4},
		{"cidr('192.168.0.0/16').containsIP('192.168.0.1')", "true", 5, 8, 5},
		{"cidr('192.168.0.0/16').containsIP('x')", `error: IP Address "x" parse error during conversion from string: ParseAddr("x"): unable to parse IP`, 0, 0, 0},

		{"cidr('2001:db8::/32').containsCIDR(cidr('2001:db8::/126'))", "true", 7, 11, 7},
		{"cidr('2001:db8::/32').containsCIDR('2001:db8::/32')", "true", 7, 11, 7},
		{"cidr('2001:db8::/32').containsIP(ip('2001:db8:3333:4444:5555:6666:7777:8888'))", "true", 7, 10, 7},
		{"cidr('2001:db8::/32').containsIP(ip('2001:db8::1'))", "true", 5, 8, 5},
		{"cidr('2001:db8::/32').containsIP('2001:db8:3333:4444:5555:6666:7777:8888')", "true", 7, 10, 7},
		{"cidr('2001:db8::/32').containsIP('2001:dc8::1')", "false", 5, 8, 5},
	})
	runCompileErrors(t, compileErrors{
		"cidr(192168)": "found no matching overload for 'cidr' applied to '(int)'",
	})
}

func TestURLs(t *testing.T) {
	t.Parallel()
	run(t, []example{
		{"url('https://example.com:80/').getHost()", "'example.com:80'", 4, 4, 4},
		{"url('https://[::1]:80/').getHost()", "'[::1]:80'", 3, 3, 3},
		{"url('https://[::1]:80/').getHostname()", "'::1'", 3, 3, 3},
		{"url('https://example.com/').getPort()", "''", 3, 3, 3},
		{"url('https://example.com:80/').getPort()", "'80'", 4, 4, 4},
		{"url('/path').getScheme()", "''", 2, 2, 2},
		{"url('https://example.com/').getScheme()", "'https'", 3, 3, 3},
		{"url('https://example.com/path with spaces/').getEscapedPath()", "'/path%20with%20spaces/'", 5, 5, 5},
		{"url('https://example.com').getEscapedPath()", "''", 3, 3, 3},
		{"url('https://example.com/path#fragment').getEscapedPath()", "'/path'", 5, 5, 5},
		{"url('https://example.com/path?k1=a&k2=b&k2=c').getQuery()", "{'k1': ['a'], 'k2': ['b', 'c']}", 5, 5, 5},
		{"url('https://example.com/path?').getQuery()", "{}", 4, 4, 4},
		{"url('https:://kubernetes.io/').getQuery()", "{}", 4, 4, 4},
		{"url('https:://kubernetes.io/') == url('https:://kubernetes.io/')", "true", 7, 9, 7},
		{"url('https:://kubernetes.io/') == url('http://x.b')", "false", 5, 5, 5},
		{"url('../relative-path')", `error: URL parse error during conversion from string: parse "../relative-path": invalid URI for request`, 0, 0, 0},
		{"url('https://a:b:c/')", `error: URL parse error during conversion from string: parse "https://a:b:c/": invalid port ":b:c" after host`, 0, 0, 0},
		{"isURL('https://user:pass@example.com:80/path?query=val#fragment')", "true", 1, 1, 1},
		{"isURL('/absolute-path')", "true", 1, 1, 1},
		{"isURL('https://a:b:c/')", "false", 1, 1, 1},
		{"isURL('../relative-path')", "false", 1, 1, 1},
	})
	runCompileErrors(t, compileErrors{
		"url('/a').nope()":           "undeclared reference to 'nope' (in container '')",
		"string(url('/a'))":          "found no matching overload for 'string' applied to '(kubernetes.URL)'",
		"type(1) == kubernetes.URL":  "undeclared reference to 'kubernetes' (in container '')",
		"url('/a') < url('/b')":      "found no matching overload for '_<_' applied to '(kubernetes.URL, kubernetes.URL)'",
		"getScheme(url('/a')) == ''": "found no matching overload for 'getScheme' applied to '(kubernetes.URL)'",
	})
}
