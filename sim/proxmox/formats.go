package proxmox

import (
	"net"
	"regexp"
	"slices"
	"strings"
)

// simple are the formats that one expression decides, with the words of a refusal.
var simple = map[string]struct {
	re   *regexp.Regexp
	text string
}{
	"dns-name": {
		regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?(\.[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?)*$`),
		"value does not look like a valid DNS name\n",
	},
	"pve-vmid":       {regexp.MustCompile(`^[1-9][0-9]{2,8}$`), "value does not look like a valid VM ID\n"},
	"pve-node":       {regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?$`), "value does not look like a valid node name\n"},
	"pve-poolid":     {regexp.MustCompile(`^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+){0,2}$`), "value contains invalid characters\n"},
	"pve-storage-id": {regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9._-]*[a-zA-Z0-9]$`), "storage ID contains illegal characters\n"},
	"pve-configid":   {regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_-]+$`), "invalid configuration ID\n"},
	"pve-bridge-id":  {regexp.MustCompile(`^[-_.\w]{1,15}$`), "invalid bridge id\n"},
	"mac-addr":       {regexp.MustCompile(`^(?i)[a-f0-9][02468ace](:[a-f0-9]{2}){5}$`), "value does not look like a valid unicast MAC address\n"},
	"disk-size":      {regexp.MustCompile(`^\d+(\.\d+)?[KMGT]?$`), "value does not look like a valid disk size\n"},
	"pve-volume-id":  {regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9._-]*[a-zA-Z0-9]:\S+$`), "unable to parse volume ID\n"},
	"pve-volume-id-or-absolute-path": {
		regexp.MustCompile(`^(/\S+|[a-zA-Z][a-zA-Z0-9._-]*[a-zA-Z0-9]:\S+)$`), "not an absolute path or volume ID\n",
	},
	"pve-volume-id-or-qm-path": {
		regexp.MustCompile(`^(none|cdrom|/dev/\S+|\d+(\.\d+)?|[a-zA-Z][a-zA-Z0-9._-]*[a-zA-Z0-9]:\S+)$`), "unable to parse volume ID\n",
	},
	"urlencoded":  {regexp.MustCompile(`^[-%a-zA-Z0-9_.!~*'()]*$`), "invalid urlencoded string\n"},
	"pve-qm-boot": {regexp.MustCompile(`^(order=[a-z0-9;]*|(legacy=)?[acdn]{1,4}|\s*)$`), "format error\n"},
}

// lists are formats of lists, and what each of their parts must be.
var lists = map[string]string{
	"pve-vmid-list": "pve-vmid", "pve-storage-id-list": "pve-storage-id", "pve-configid-list": "pve-configid", "pve-storage-content-list": "pve-storage-content",
}

// named are formats of key=value that the descriptions give only a name for.
var named = map[string]map[string]*property{
	"pve-qm-smbios1": {
		"uuid":         {Type: "string", Pattern: `[a-fA-F0-9]{8}(?:-[a-fA-F0-9]{4}){3}-[a-fA-F0-9]{12}`, Optional: true},
		"version":      optionalText,
		"serial":       optionalText,
		"manufacturer": optionalText,
		"product":      optionalText,
		"sku":          optionalText,
		"family":       optionalText,
		"base64":       {Type: "boolean", Optional: true},
	},
	"pve-qm-cicustom": {"meta": optionalText, "network": optionalText, "user": optionalText, "vendor": optionalText},
	"pve-qm-ipconfig": {"ip": optionalText, "gw": optionalText, "ip6": optionalText, "gw6": optionalText},
	"pve-qm-rng": {
		"source":    {Type: "string", Enum: []string{"/dev/urandom", "/dev/random", "/dev/hwrng"}, DefaultKey: true},
		"max_bytes": {Type: "integer", Optional: true}, "period": {Type: "integer", Optional: true},
	},
}

var (
	optionalText = &property{Type: "string", Optional: true}
	contents     = []string{"images", "rootdir", "vztmpl", "iso", "backup", "snippets", "none", "import"}
	tag          = regexp.MustCompile(`^(?i)[a-z0-9_][a-z0-9_\-+.]*$`)
	separators   = regexp.MustCompile(`[,;\s\x00]+`)
)

// split splits a list as Proxmox does.
func split(text string) []string {
	var out []string
	for _, p := range separators.Split(strings.TrimSpace(text), -1) {
		if p != "" {
			out = append(out, p)
		}
	}
	return out
}

// check returns what is wrong with a text, empty when nothing is. name is what errors inside of it are said of. A format that is
// not known accepts everything.
func (f format) check(name, text string) string {
	if f.keys != nil {
		_, bad := parseKeys(f.keys, name, text)
		return bad
	}
	if keys := named[f.name]; keys != nil {
		_, bad := parseKeys(keys, name, text)
		return bad
	}
	if s, ok := simple[f.name]; ok && !s.re.MatchString(text) {
		return s.text
	}
	if part := lists[f.name]; part != "" {
		for _, p := range split(text) {
			if bad := (format{name: part}).check(name, p); bad != "" {
				return bad
			}
		}
	}
	switch f.name {
	case "pve-tag-list":
		for _, p := range split(text) {
			if !tag.MatchString(p) {
				return "invalid characters in tag\n"
			}
		}
	case "pve-storage-content":
		if !slices.Contains(contents, text) {
			return "invalid content type '" + text + "'\n"
		}
	case "CIDR":
		if _, _, err := net.ParseCIDR(text); err != nil {
			return "value does not look like a valid CIDR network\n"
		}
	}
	return ""
}

// parseKeys reads a list of key=value by its properties.
func parseKeys(props map[string]*property, name, text string) (map[string]string, string) {
	out, errs := map[string]string{}, map[string]string{}
	byDefault := ""
	for name, p := range props {
		if p.DefaultKey {
			byDefault = name
		}
	}
	for part := range strings.SplitSeq(text, ",") {
		if part == "" {
			continue
		}
		k, v, ok := strings.Cut(part, "=")
		switch {
		case !ok && byDefault == "":
			return nil, "value without key, but schema does not define a default key\n"
		case !ok:
			k, v = byDefault, part
		}
		if p := props[k]; p != nil && p.Alias != "" {
			if p.KeyAlias != "" {
				out[p.KeyAlias] = k
			}
			k = p.Alias
		}
		if _, twice := out[k]; twice {
			return nil, "duplicate key in comma-separated list property: " + k + "\n"
		}
		out[k] = v
	}
	for k, v := range out {
		if p := props[k]; p == nil || p.Alias != "" {
			errs[k] = notInSchema
		} else if bad := p.check(name+"."+k, value{text: v}); bad != "" {
			errs[k] = bad
		}
	}
	for k, p := range props {
		if _, ok := out[k]; !ok && !p.Optional && p.Alias == "" {
			errs[k] = "property is missing and it is not optional"
		}
	}
	if len(errs) == 0 {
		return out, ""
	}
	keys := make([]string, 0, len(errs))
	for k := range errs {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	var bad strings.Builder
	bad.WriteString("format error\n")
	for _, k := range keys {
		bad.WriteString(name + "." + k + ": " + strings.TrimSuffix(errs[k], "\n") + "\n")
	}
	return nil, bad.String()
}
