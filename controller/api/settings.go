package api

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/zoomies-fleet/zoomies/controller/config"
)

// Setting is a setting with its value in force, and where that comes from.
type Setting struct {
	Key             string           `json:"key"`
	Group           string           `json:"group"`
	Summary         string           `json:"summary"`
	Kind            string           `json:"kind" enum:"string,int,bool,duration,list,map,secret-file" doc:"How the value is written; a secret-file is the path of a file, which is never read"`
	Value           string           `json:"value" doc:"By all layers as they are now, in the form that the environment takes"`
	Source          string           `json:"source" enum:"default,file,database,environment" doc:"The layer that gives the value"`
	SourceDetail    string           `json:"source_detail,omitempty" doc:"The file and line, or the variable"`
	DatabaseValue   *string          `json:"database_value,omitempty" doc:"What the fleet's database says, also where the environment overrides it"`
	Default         string           `json:"default"`
	Floor           string           `json:"floor,omitempty"`
	Ceiling         string           `json:"ceiling,omitempty"`
	Values          []string         `json:"values,omitempty" doc:"The only words allowed"`
	Variable        string           `json:"variable" doc:"The environment variable that sets it"`
	Effect          string           `json:"effect" enum:"live,restart" doc:"When a change counts"`
	Early           bool             `json:"early" doc:"It is needed before the database opens, and cannot be set here"`
	RestartRequired bool             `json:"restart_required" doc:"It has changed and counts from the next start of the controller"`
	Findings        []SettingFinding `json:"findings" nullable:"false" doc:"In what way the value is not safe"`
}

// TransformSchema implements huma.SchemaTransformer: an answer has every field.
func (Setting) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	return allRequired(s, "source_detail", "database_value", "floor", "ceiling", "values")
}

// SettingFinding is one way in which a setting is not safe.
type SettingFinding struct {
	Severity string `json:"severity" enum:"error,warning" doc:"The controller does not start with an error"`
	Code     string `json:"code"`
	Title    string `json:"title"`
	Why      string `json:"why"`
	Fix      string `json:"fix"`
}

// SettingValue is what a setting is set to.
type SettingValue struct {
	Value string `json:"value" maxLength:"65536" doc:"In the form that the environment takes: 90s, true, a,b or NAME=value,NAME2=value2"`
}

type (
	// SettingPath names one in a path; huma looks only into exported types.
	SettingPath struct {
		Key string `path:"key" maxLength:"100" doc:"The setting's key, such as github.poll_interval"`
	}
	settingOutput  struct{ Body Setting }
	settingsOutput struct{ Body Page[Setting] }
	listSettings   struct {
		PageParams
		Group  string `query:"group" maxLength:"64" doc:"Only settings of this group"`
		Source string `query:"source" enum:"default,file,database,environment" doc:"Only settings whose value comes from this layer"`
	}
	setSetting struct {
		SettingPath
		IfMatch string `header:"If-Match" doc:"Set it only while its ETag is this"`
		Body    SettingValue
	}
)

func addSettings(s *Server) {
	register(s, "list-settings", s.listSettings)
	register(s, "get-setting", s.getSetting)
	register(s, "set-setting", s.setSetting)
	register(s, "reset-setting", s.resetSetting)
}

// merged is what the settings' layers come to.
type merged struct {
	rows     map[string]string // the database's
	now      *config.Config
	findings []config.Finding
}

func (s *Server) mergeSettings(rows map[string]string) (merged, error) {
	c, err := s.loadSettings(rows)
	if err != nil {
		return merged{}, err
	}
	return merged{rows, c, config.Validate(c)}, nil
}

func (s *Server) settingsNow(ctx context.Context) (merged, error) {
	rows, err := s.store.Settings(ctx)
	if err != nil {
		return merged{}, err
	}
	return s.mergeSettings(rows)
}

func (s *Server) viewSetting(set config.Setting, m merged) Setting {
	source := m.now.Source(set.Key)
	v := Setting{
		Key: set.Key, Group: set.Group, Summary: set.Summary, Kind: string(set.Kind), Value: m.now.Text(set.Key), Source: string(source.Layer),
		SourceDetail: source.Where, Default: set.Default, Floor: set.Floor, Ceiling: set.Ceiling, Values: set.Values, Variable: set.Env(),
		Effect: string(set.Effect), Early: set.Early, Findings: []SettingFinding{},
		RestartRequired: set.Effect == config.Restart && m.now.Text(set.Key) != s.running.Text(set.Key),
	}
	if text, ok := m.rows[set.Key]; ok {
		v.DatabaseValue = &text
	}
	for _, f := range m.findings {
		if f.Key == set.Key {
			v.Findings = append(v.Findings, SettingFinding{Severity: string(f.Severity), Code: f.Code, Title: f.Title, Why: f.Why, Fix: f.Fix})
		}
	}
	return v
}

func (s *Server) listSettings(ctx context.Context, in *listSettings) (*settingsOutput, error) {
	m, err := s.settingsNow(ctx)
	if err != nil {
		return nil, err
	}
	var all []Setting
	order := map[string]string{} // the registry's
	for i, set := range config.Registry() {
		v := s.viewSetting(set, m)
		order[set.Key] = fmt.Sprintf("%06d", i)
		if (in.Group == "" || v.Group == in.Group) && (in.Source == "" || v.Source == in.Source) {
			all = append(all, v)
		}
	}
	page, err := paginate(all, in.PageParams, "registry", keys[Setting]{
		"registry": func(v Setting) string { return order[v.Key] },
	}, func(v Setting) string { return v.Key })
	return &settingsOutput{page}, err
}

func (s *Server) getSetting(ctx context.Context, in *SettingPath) (*settingOutput, error) {
	set, err := findSetting(in.Key)
	if err != nil {
		return nil, err
	}
	m, err := s.settingsNow(ctx)
	if err != nil {
		return nil, err
	}
	return &settingOutput{s.viewSetting(set, m)}, nil
}

func (s *Server) setSetting(ctx context.Context, in *setSetting) (*settingOutput, error) {
	set, err := findSetting(in.Key)
	if err != nil {
		return nil, err
	}
	if set.Early {
		return nil, problem(http.StatusConflict, set.Key+" is needed before the database opens, so it cannot be set in the database.",
			"Set it in the settings file or as "+set.Env()+".")
	}
	if err := config.Check(set.Key, in.Body.Value); err != nil {
		return nil, invalid("body.value", "%s", err)
	}
	return s.changeSetting(ctx, set, in.IfMatch, func(rows map[string]string) { rows[set.Key] = in.Body.Value }, func(ctx context.Context) error {
		return s.store.SetSetting(ctx, set.Key, in.Body.Value)
	})
}

func (s *Server) resetSetting(ctx context.Context, in *SettingPath) (*struct{}, error) {
	set, err := findSetting(in.Key)
	if err != nil {
		return nil, err
	}
	_, err = s.changeSetting(ctx, set, "", func(rows map[string]string) { delete(rows, set.Key) }, func(ctx context.Context) error {
		return s.store.DeleteSetting(ctx, set.Key)
	})
	return nil, err
}

// changeSetting judges what the settings would come to, and writes the change unless the controller would not start with it.
func (s *Server) changeSetting(ctx context.Context, set config.Setting, match string, edit func(map[string]string), write func(context.Context) error) (*settingOutput, error) {
	s.settingsMu.Lock()
	defer s.settingsMu.Unlock()
	before, err := s.settingsNow(ctx)
	if err != nil {
		return nil, err
	}
	if err := ifMatch(match, s.viewSetting(set, before)); err != nil {
		return nil, err
	}
	rows := map[string]string{}
	maps.Copy(rows, before.rows)
	edit(rows)
	after, err := s.mergeSettings(rows)
	if err != nil {
		return nil, invalid("body.value", "%s", strings.ReplaceAll(err.Error(), "\n", " "))
	}
	for _, f := range after.findings {
		if f.Severity == config.Error && !slices.Contains(before.findings, f) {
			p := invalid("body.value", "the controller would not start: %s", strings.TrimSuffix(f.Title, "."))
			p.Fix = f.Fix
			return nil, p
		}
	}
	view := s.viewSetting(set, after)
	err = s.do(ctx, change{kind: "setting", id: set.Key, name: set.Key, before: s.viewSetting(set, before), after: view}, write)
	if err != nil {
		return nil, err
	}
	if err := s.fleet.ApplySettings(ctx); err != nil {
		// It is written, and counts from the next start at the latest.
		s.log.Error("a setting was written and could not be applied", "key", set.Key, "err", err)
		return nil, problem(http.StatusInternalServerError, set.Key+" was written, and the running controller could not take it over.",
			"It counts from the next start. Look for this request_id in the controller's log.")
	}
	return &settingOutput{view}, nil
}

func findSetting(key string) (config.Setting, error) {
	set, did, ok := config.Find(key)
	if !ok {
		return set, problem(http.StatusNotFound, fmt.Sprintf("There is no setting %.100s%s.", key, did), "List the settings to see the keys.")
	}
	return set, nil
}
