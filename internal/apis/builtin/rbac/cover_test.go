package rbac

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
)

// rules parses "GROUPS RESOURCES VERBS [NAMES]" or "PATHS VERBS". Rules are separated by "; ", and words by
// commas. The word "core" stands for the core group.
func rules(text string) []rbacv1.PolicyRule {
	var list []rbacv1.PolicyRule
	words := func(s string) []string { return strings.Split(strings.ReplaceAll(s, "core", ""), ",") }
	for one := range strings.SplitSeq(text, "; ") {
		fields := strings.Fields(one)
		switch {
		case len(fields) == 0:
		case len(fields) == 2:
			list = append(list, rbacv1.PolicyRule{NonResourceURLs: words(fields[0]), Verbs: words(fields[1])})
		default:
			rule := rbacv1.PolicyRule{APIGroups: words(fields[0]), Resources: words(fields[1]), Verbs: words(fields[2])}
			if len(fields) > 3 {
				rule.ResourceNames = words(fields[3])
			}
			list = append(list, rule)
		}
	}
	return list
}

func TestUncovered(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, held, wanted, want string }{
		{"nothing is wanted", "", "", ""},
		{"the same", "core pods get", "core pods get", ""},
		{"nothing is held", "", "core pods get,list", `{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}`},
		{"by two rules", "core pods get; core pods,secrets list", "core pods get,list", ""},
		{"a part", "core pods get", "core pods,secrets get,list", `{APIGroups:[""], Resources:["pods"], Verbs:["list"]}` + "\n" + `{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}`},
		{"all verbs", "core pods *", "core pods get", ""},
		{"all verbs wanted", "core pods get,list", "core pods *", `{APIGroups:[""], Resources:["pods"], Verbs:["*"]}`},
		{"all groups", "* pods get", "core,apps pods get", ""},
		{"all resources", "core * get", "core pods/log get", ""},
		{"of all a subresource", "core */log get", "core pods/log get", ""},
		{"not of another one", "core */log get", "core pods/exec get", `{APIGroups:[""], Resources:["pods/exec"], Verbs:["get"]}`},
		{"a resource is not its subresource", "core pods get", "core pods/log get", `{APIGroups:[""], Resources:["pods/log"], Verbs:["get"]}`},
		{"a name", "core pods get", "core pods get a", ""},
		{"a name of two", "core pods get a,b", "core pods get a", ""},
		{"all names", "core pods get a", "core pods get", `{APIGroups:[""], Resources:["pods"], Verbs:["get"]}`},
		{"another name", "core pods get a", "core pods get a,b", `{APIGroups:[""], Resources:["pods"], ResourceNames:["b"], Verbs:["get"]}`},
		{"a path", "/a,/b/* get", "/a,/b/c get", ""},
		{"paths with prefixes of other lengths", "/b/*,/longer/*,/c* get", "/b/c,/longer/path,/c,/cd get", ""},
		{"a path above", "/b/* get", "/b get", `{NonResourceURLs:["/b"], Verbs:["get"]}`},
		{"all paths", "* *", "/b/* get", ""},
		{"paths are no resources", "* *", "core pods get", `{APIGroups:[""], Resources:["pods"], Verbs:["get"]}`},
		{"everything", "* * *; * *", "* * *; * *", ""},
		{"too much to be taken apart", "core pods get", strings.Repeat("a,", 50) + "a " + strings.Repeat("b,", 50) + "b " + strings.Repeat("c,", 50) + "c",
			`{APIGroups:["` + strings.Repeat(`a" "`, 50) + `a"], Resources:["` + strings.Repeat(`b" "`, 50) + `b"], Verbs:["` + strings.Repeat(`c" "`, 50) + `c"]}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := strings.Join(describe(uncovered(rules(tt.held), rules(tt.wanted))), "\n"); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

// TestUncoveredIsBounded checks that countParts reports rules with too many single permissions, so that they
// are not split.
func TestUncoveredIsBounded(t *testing.T) {
	t.Parallel()
	long := make([]string, 100_000)
	for i := range long {
		long[i] = string(rune('a' + rand.IntN(26)))
	}
	for _, rule := range []rbacv1.PolicyRule{
		{APIGroups: long, Resources: long, Verbs: long, ResourceNames: long},
		{APIGroups: long[:1], Resources: long[:1], Verbs: long[:2], ResourceNames: long},
		{NonResourceURLs: long, Verbs: long},
	} {
		if n := countParts(&rule, maxParts); n <= maxParts {
			t.Errorf("%d parts", n)
		}
	}
}

// TestCoverCost checks that the CPU time for the comparison of two rules grows linearly with their sizes. It is
// not parallel, because it measures the CPU time of the process.
func TestCoverCost(t *testing.T) {
	used := func() time.Duration {
		var usage syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
			t.Skip(err)
		}
		return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	cost := func(n int) time.Duration {
		texts := make([]string, n)
		for i := range texts {
			texts[i] = fmt.Sprintf("/%d", i)
		}
		reversed := slices.Clone(texts)
		slices.Reverse(reversed)
		held := []rbacv1.PolicyRule{
			{APIGroups: texts, Resources: texts, Verbs: texts, ResourceNames: texts}, {NonResourceURLs: texts, Verbs: texts},
		}
		wanted := []rbacv1.PolicyRule{
			{APIGroups: reversed, Resources: reversed, Verbs: reversed, ResourceNames: reversed}, {NonResourceURLs: reversed, Verbs: reversed},
		}
		least := time.Hour
		for range 3 {
			began := used()
			if missing := uncovered(held, wanted); len(missing) > 0 {
				t.Fatalf("%d rules are not covered", len(missing))
			}
			least = min(least, used()-began)
		}
		return least
	}
	small, large := cost(2_500), cost(20_000)
	if large > 20*small+50*time.Millisecond {
		t.Errorf("rules with 2,500 elements take %v of CPU, eight times as many %v", small, large)
	}
}
