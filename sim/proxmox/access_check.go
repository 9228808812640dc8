package proxmox

import (
	"fmt"
	"maps"
	"strings"
	"time"
)

// authenticate finds out who sends a request.
func (a *access) authenticate(header string, now time.Time) (string, error) {
	rest, ok := strings.CutPrefix(header, "PVEAPIToken")
	if !ok || rest == "" || rest[0] != '=' && rest[0] != ' ' {
		return "", bare(401, "No ticket", "")
	}
	who, secret, ok := strings.Cut(rest[1:], "=")
	name, id, isToken := strings.Cut(who, "!")
	failed := bare(401, "Authentication failed!", "")
	u := a.users[name]
	if !ok || !isToken || u == nil || u.disabled || !u.expire.IsZero() && now.After(u.expire) {
		return "", failed
	}
	t := u.tokens[id]
	if t == nil || t.secret != secret || !t.expire.IsZero() && now.After(t.expire) {
		return "", failed
	}
	return who, nil
}

// evaluate evaluates a permission tree of the API's description.
func (a *access) evaluate(check []any, who string, params map[string]string) error {
	word := func(i int) string {
		if i < len(check) {
			s, _ := check[i].(string)
			return s
		}
		return ""
	}
	switch word(0) {
	case "and", "or":
		for _, sub := range check[1:] {
			sub, _ := sub.([]any)
			err := a.evaluate(sub, who, params)
			if word(0) == "and" && err != nil {
				return err
			}
			if word(0) == "or" && err == nil {
				return nil
			}
		}
		if word(0) == "or" {
			return denied("")
		}
		return nil
	case "perm":
		var privs []string
		if list, ok := check[2].([]any); ok {
			for _, p := range list {
				privs = append(privs, fmt.Sprint(p))
			}
		}
		anyOf := false
		for i := 3; i+1 < len(check); i += 2 {
			switch word(i) {
			case "any":
				anyOf = fmt.Sprint(check[i+1]) == "1"
			case "require_param":
				if params[word(i+1)] == "" {
					return denied("")
				}
			}
		}
		path := normal(fill(word(1), params))
		if anyOf {
			return a.checkAny(who, path, privs...)
		}
		return a.check(who, path, privs...)
	case "userid-param":
		name, _, _ := strings.Cut(who, "!")
		if word(1) == "self" && params["userid"] == name {
			return nil
		}
		_, realm, _ := strings.Cut(params["userid"], "@")
		return a.check(who, "/access/realm/"+realm, "Realm.AllocateUser")
	}
	return denied("")
}

// fill puts parameters into a path.
func fill(path string, params map[string]string) string {
	for k, v := range params {
		path = strings.ReplaceAll(path, "{"+k+"}", v)
	}
	return path
}

// effective are all paths at which somebody has privileges.
func (a *access) effective(who string) map[string]map[string]bool {
	paths := map[string]bool{"/": true, "/access": true, "/access/groups": true, "/nodes": true, "/pool": true, "/sdn": true, "/storage": true, "/vms": true}
	for p := range a.acl {
		paths[p] = true
	}
	for _, p := range a.pools {
		for id := range p.vms {
			paths[fmt.Sprintf("/vms/%d", id)] = true
		}
		for id := range p.storages {
			paths["/storage/"+id] = true
		}
	}
	out := map[string]map[string]bool{}
	for p := range maps.Keys(paths) {
		if privs := a.permissions(who, p); len(privs) > 0 {
			out[p] = privs
		}
	}
	return out
}
