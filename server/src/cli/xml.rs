//! The XML of `mkdg` and `chdg`, as `asmcmd` takes it, turned into statements.
//!
//! ```text
//! <dg name="data" redundancy="normal">
//!   <fg name="fg1" type="regular">
//!     <dsk name="d1" string="/dev/disk1" size="10G" force="false"/>
//!   </fg>
//!   <a name="au_size" value="4M"/>
//! </dg>
//!
//! <chdg name="data" power="3">
//!   <drop> <fg name="fg1" reclaim="true"/> <dsk name="data_0001" force="true"/> </drop>
//!   <add> <fg name="fg2"> <dsk string="/dev/disk5"/> </fg> </add>
//!   <resize> <dsk name="d1" size="5G"/> </resize>
//!   <replace> <dsk name="d2" string="/dev/disk6"/> </replace>
//!   <undrop/>
//!   <a name="disk_repair_time" value="4h"/>
//! </chdg>
//! ```
//!
//! `dsk` may also stand outside an `fg`. An unknown element or attribute is refused, not ignored.

use super::{
    Result,
    context::{checked_name, checked_word, quoted},
};
use crate::sql_error::{SqlError, state};
use roxmltree::{Document, Node};

fn wrong(node: Node<'_, '_>, text: &str) -> SqlError {
    let place = node.document().text_pos_at(node.range().start);
    SqlError::new(
        state::SYNTAX,
        format!("<{}> at line {}: {text}", node.tag_name().name(), place.row),
    )
}

/// The root of a document, which must have this name.
fn root<'a>(document: &'a Document<'a>, name: &str) -> Result<Node<'a, 'a>> {
    let root = document.root_element();
    if root.tag_name().name() == name {
        Ok(root)
    } else {
        Err(wrong(root, &format!("<{name}> is wanted here")))
    }
}

fn parse(text: &str) -> Result<Document<'_>> {
    Document::parse(text).map_err(|error| SqlError::new(state::SYNTAX, format!("the XML: {error}")))
}

/// The elements in an element, all of known names.
fn elements<'a>(node: Node<'a, 'a>, names: &[&str]) -> Result<Vec<Node<'a, 'a>>> {
    let children: Vec<Node<'_, '_>> = node.children().filter(Node::is_element).collect();
    match children.iter().find(|child| !names.contains(&child.tag_name().name())) {
        Some(child) => {
            Err(wrong(*child, &format!("it has no place in <{}>", node.tag_name().name())))
        }
        None => Ok(children),
    }
}

/// Refuses attributes with any other name.
fn only(node: Node<'_, '_>, names: &[&str]) -> Result<()> {
    match node.attributes().find(|attribute| !names.contains(&attribute.name())) {
        Some(attribute) => Err(wrong(node, &format!("it has no attribute {}", attribute.name()))),
        None => Ok(()),
    }
}

fn wanted<'a>(node: Node<'a, '_>, name: &str) -> Result<&'a str> {
    node.attribute(name).ok_or_else(|| wrong(node, &format!("the attribute {name} is missing")))
}

fn force(node: Node<'_, '_>) -> Result<&'static str> {
    flag(node, "force", " FORCE")
}

/// The clause of an attribute that is true or false, or nothing.
fn flag(node: Node<'_, '_>, name: &str, clause: &'static str) -> Result<&'static str> {
    match node.attribute(name).map(str::to_lowercase).as_deref() {
        None | Some("false") => Ok(""),
        Some("true") => Ok(clause),
        Some(_) => Err(wrong(node, &format!("{name} is true or false"))),
    }
}

/// ` SIZE s`, or nothing.
fn size(node: Node<'_, '_>) -> Result<String> {
    node.attribute("size")
        .map_or(Ok(String::new()), |size| Ok(format!(" SIZE {}", checked_word(size, "size")?)))
}

/// A new disk: `'path' NAME n SIZE s FORCE`.
fn new_disk(node: Node<'_, '_>) -> Result<String> {
    only(node, &["name", "string", "size", "force"])?;
    let path = quoted(wanted(node, "string")?);
    let name = match node.attribute("name") {
        Some(name) => format!(" NAME {}", checked_name(name, "a disk")?),
        None => String::new(),
    };
    Ok(format!("{path}{name}{}{}", size(node)?, force(node)?))
}

/// New disks in their failure groups: each clause begins with `before`.
fn new_disks(nodes: &[Node<'_, '_>], before: &str) -> Result<String> {
    let mut clauses = String::new();
    for node in nodes {
        match node.tag_name().name() {
            "fg" => {
                only(*node, &["name", "type"])?;
                let kind = match node.attribute("type").map(str::to_lowercase).as_deref() {
                    None => "",
                    Some("regular") => " REGULAR",
                    Some("quorum") => " QUORUM",
                    Some(_) => return Err(wrong(*node, "type is regular or quorum")),
                };
                let disks = elements(*node, &["dsk"])?;
                let disks = disks.into_iter().map(new_disk).collect::<Result<Vec<_>>>()?;
                if disks.is_empty() {
                    return Err(wrong(*node, "it has no <dsk>"));
                }
                let name = checked_name(wanted(*node, "name")?, "a failure group")?;
                clauses.push_str(&format!(
                    "{before}{kind} FAILGROUP {name} DISK {}",
                    disks.join(", ")
                ));
            }
            _ => clauses.push_str(&format!("{before} DISK {}", new_disk(*node)?)),
        }
    }
    Ok(clauses)
}

/// `'name' = 'value'` of an `<a>`.
fn attribute(node: Node<'_, '_>) -> Result<String> {
    only(node, &["name", "value"])?;
    Ok(format!("{} = {}", quoted(wanted(node, "name")?), quoted(wanted(node, "value")?)))
}

fn named<'a>(nodes: &[Node<'a, 'a>], name: &str) -> Vec<Node<'a, 'a>> {
    nodes.iter().filter(|node| node.tag_name().name() == name).copied().collect()
}

/// The statement of `mkdg`.
pub(super) fn make(text: &str) -> Result<String> {
    let document = parse(text)?;
    let root = root(&document, "dg")?;
    only(root, &["name", "redundancy"])?;
    let parts = elements(root, &["fg", "dsk", "a"])?;
    let group = checked_name(wanted(root, "name")?, "a disk group")?;
    let redundancy = match root.attribute("redundancy").map(str::to_lowercase).as_deref() {
        None | Some("normal") => "NORMAL",
        Some("high") => "HIGH",
        Some("external") => "EXTERNAL",
        Some(_) => return Err(wrong(root, "redundancy is external, normal or high")),
    };
    let disks: Vec<_> =
        parts.iter().filter(|node| node.tag_name().name() != "a").copied().collect();
    let disks = new_disks(&disks, "")?;
    let attributes = named(&parts, "a").into_iter().map(attribute).collect::<Result<Vec<_>>>()?;
    let attributes = if attributes.is_empty() {
        String::new()
    } else {
        format!(" ATTRIBUTE {}", attributes.join(", "))
    };
    let disks = disks.trim_start();
    Ok(format!("CREATE DISKGROUP {group} {redundancy} REDUNDANCY {disks}{attributes}"))
}

/// The statements of `chdg`. Disks are added and dropped in one statement, so that data moves once.
pub(super) fn change(text: &str) -> Result<Vec<String>> {
    let document = parse(text)?;
    let root = root(&document, "chdg")?;
    only(root, &["name", "power"])?;
    let group = checked_name(wanted(root, "name")?, "a disk group")?;
    let power = match root.attribute("power").map(str::parse::<u32>) {
        None => String::new(),
        Some(Ok(power)) => format!(" POWER {power}"),
        Some(Err(_)) => return Err(wrong(root, "power is a number")),
    };
    let parts = elements(root, &["add", "drop", "resize", "replace", "undrop", "a"])?;
    let mut statements = Vec::new();
    let alter = |rest: String| format!("ALTER DISKGROUP {group} {rest}");
    for node in named(&parts, "a") {
        statements.push(alter(format!("SET ATTRIBUTE {}", attribute(node)?)));
    }
    if !named(&parts, "undrop").is_empty() {
        statements.push(alter("UNDROP DISKS".to_owned()));
    }
    let mut exchange = String::new();
    for node in named(&parts, "add") {
        only(node, &[])?;
        exchange.push_str(&new_disks(&elements(node, &["fg", "dsk"])?, " ADD")?);
    }
    for node in named(&parts, "drop") {
        only(node, &[])?;
        for gone in elements(node, &["fg", "dsk"])? {
            only(gone, &["name", "force", "reclaim"])?;
            let name = wanted(gone, "name")?;
            let which = match gone.tag_name().name() {
                "fg" => format!("DISKS IN FAILGROUP {}", checked_name(name, "a failure group")?),
                _ => format!("DISK {}", checked_name(name, "a disk")?),
            };
            let reclaim = flag(gone, "reclaim", " RECLAIM")?;
            exchange.push_str(&format!(" DROP {which}{}{reclaim}", force(gone)?));
        }
    }
    let rebalance = if power.is_empty() { String::new() } else { format!(" REBALANCE{power}") };
    if !exchange.is_empty() {
        statements.push(alter(format!("{}{rebalance}", exchange.trim_start())));
    }
    for node in named(&parts, "resize") {
        only(node, &["size"])?;
        let mut which = Vec::new();
        for disk in elements(node, &["fg", "dsk"])? {
            only(disk, &["name", "size"])?;
            let name = wanted(disk, "name")?;
            let size = size(disk)?;
            which.push(match disk.tag_name().name() {
                "fg" => {
                    format!("DISKS IN FAILGROUP {}{size}", checked_name(name, "a failure group")?)
                }
                _ => format!("DISK {}{size}", checked_name(name, "a disk")?),
            });
        }
        let which = if which.is_empty() { format!("ALL{}", size(node)?) } else { which.join(", ") };
        statements.push(alter(format!("RESIZE {which}{rebalance}")));
    }
    for node in named(&parts, "replace") {
        only(node, &[])?;
        let mut pairs = Vec::new();
        for disk in elements(node, &["dsk"])? {
            only(disk, &["name", "string", "force"])?;
            let name = checked_name(wanted(disk, "name")?, "a disk")?;
            pairs.push(format!("{name} WITH {}{}", quoted(wanted(disk, "string")?), force(disk)?));
        }
        if pairs.is_empty() {
            return Err(wrong(node, "it has no <dsk>"));
        }
        statements.push(alter(format!("REPLACE DISK {}{power}", pairs.join(", "))));
    }
    if statements.is_empty() {
        if power.is_empty() {
            return Err(wrong(root, "it changes nothing"));
        }
        statements.push(alter(format!("REBALANCE{power}")));
    }
    Ok(statements)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_becomes_a_statement() {
        let text = r#"<dg name="data" redundancy="normal">
            <fg name="fg1"><dsk string="/dev/a"/><dsk name="d2" string="/dev/b" size="10G" force="true"/></fg>
            <fg name="q" type="quorum"><dsk string="/dev/o'q"/></fg>
            <a name="au_size" value="1M"/><a name="disk_repair_time" value="4h"/></dg>"#;
        assert_eq!(
            make(text).ok().as_deref(),
            Some(
                "CREATE DISKGROUP DATA NORMAL REDUNDANCY FAILGROUP FG1 DISK '/dev/a', '/dev/b' NAME D2 SIZE 10G FORCE \
                 QUORUM FAILGROUP Q DISK '/dev/o''q' ATTRIBUTE 'au_size' = '1M', 'disk_repair_time' = '4h'"
            )
        );
        let text = r#"<dg name="x" redundancy="external"><dsk string="/dev/a"/></dg>"#;
        assert_eq!(
            make(text).ok().as_deref(),
            Some("CREATE DISKGROUP X EXTERNAL REDUNDANCY DISK '/dev/a'")
        );
    }

    #[test]
    fn a_change_becomes_statements() {
        let text = r#"<chdg name="data" power="3"><drop><fg name="fg1" reclaim="true"/><dsk name="data_0001" force="true"/></drop>
            <add><fg name="fg2"><dsk string="/dev/5"/></fg><dsk string="/dev/6"/></add></chdg>"#;
        assert_eq!(
            change(text).unwrap_or_default(),
            ["ALTER DISKGROUP DATA ADD FAILGROUP FG2 DISK '/dev/5' ADD DISK '/dev/6' \
              DROP DISKS IN FAILGROUP FG1 RECLAIM DROP DISK DATA_0001 FORCE REBALANCE POWER 3"]
        );
        let text = r#"<chdg name="data"><a name="n" value="v"/><resize size="5G"/><undrop/>
            <replace><dsk name="d2" string="/dev/6"/></replace></chdg>"#;
        assert_eq!(
            change(text).unwrap_or_default(),
            [
                "ALTER DISKGROUP DATA SET ATTRIBUTE 'n' = 'v'",
                "ALTER DISKGROUP DATA UNDROP DISKS",
                "ALTER DISKGROUP DATA RESIZE ALL SIZE 5G",
                "ALTER DISKGROUP DATA REPLACE DISK D2 WITH '/dev/6'"
            ]
        );
        assert_eq!(
            change(r#"<chdg name="data" power="4"/>"#).unwrap_or_default(),
            ["ALTER DISKGROUP DATA REBALANCE POWER 4"]
        );
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for text in [
            "",
            "<dg",
            "<group name='x'/>",
            "<dg/>",
            "<dg name='x' colour='red'/>",
            "<dg name='x'><disk/></dg>",
            "<dg name='x; DROP'><dsk string='a'/></dg>",
            "<dg name='x' redundancy='flex'><dsk string='a'/></dg>",
            "<dg name='x'><fg name='f'/></dg>",
            "<dg name='x'><dsk/></dg>",
            "<dg name='x'><dsk string='a' size='1 FORCE'/></dg>",
        ] {
            assert!(make(text).is_err(), "{text}");
        }
        for text in [
            "<chdg name='x'/>",
            "<chdg name='x' power='fast'/>",
            "<chdg name='x'><add><fg name='f'/></add></chdg>",
        ] {
            assert!(change(text).is_err(), "{text}");
        }
    }
}
